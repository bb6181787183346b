// TestServer: a server that does not sum. Its control sessions are real, and a FakeRunner runs its jobs.
#pragma once
#include <unistd.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "src/base/mutex.h"
#include "src/server/control_server.h"
#include "tests/unit/control/cluster.h"

namespace bps::test {

// A JobRunner whose jobs do nothing. By default it reports each step of a job as soon as the session asks for that
// step. The test can delay or suppress the reports.
class FakeRunner final : public JobRunner {
 public:
  struct Job {
    JobSpec spec;
    std::shared_ptr<JobEvents> events;
    std::vector<Blob> received;
    std::vector<size_t> lost;
    bool finishing = false;
  };
  Status open(const JobSpec& spec, std::shared_ptr<JobEvents> events) override {
    MutexLock lock(mutex_);
    if (!refusal_.empty()) return {Code::kSystem, refusal_};
    ++opened_;
    jobs_.push_back({spec, events, {}, {}});
    if (!listens_) return {};
    std::vector<Blob> handles;
    for (size_t e = 0; e < spec.roster.endpoints(); ++e) handles.push_back(handle(spec.endpoint, e));
    events->listening(spec.roster.jobId, std::move(handles));
    return {};
  }
  void connect(uint64_t job, std::vector<Blob> handles) override {
    MutexLock lock(mutex_);
    ++connects_;
    for (Job& j : jobs_)
      if (j.spec.roster.jobId == job) j.received = std::move(handles);
    for (Job& j : jobs_)
      if (j.spec.roster.jobId == job && reportsConnected_) j.events->connected(job);
  }
  void lose(uint64_t job, size_t machine) override {
    MutexLock lock(mutex_);
    for (Job& j : jobs_)
      if (j.spec.roster.jobId == job) j.lost.push_back(machine);
    changed_.notifyAll();
  }
  void finish(uint64_t job) override {
    MutexLock lock(mutex_);
    for (Job& j : jobs_)
      if (j.spec.roster.jobId == job) j.finishing = true;
    changed_.notifyAll();
  }
  void close(uint64_t job) override {
    MutexLock lock(mutex_);
    for (const Job& j : jobs_)
      if (j.spec.roster.jobId == job && closesAtOnce_) j.events->closed(job);
      else if (j.spec.roster.jobId == job) closing_.push_back({j.spec, j.events, {}, {}});
    std::erase_if(jobs_, [&](const Job& j) { return j.spec.roster.jobId == job; });
    changed_.notifyAll();
  }
  // After this call, jobs that are closed remain in the closing state until the test calls reportClosed().
  void deferClose() {
    MutexLock lock(mutex_);
    closesAtOnce_ = false;
  }
  void reportClosed() {
    MutexLock lock(mutex_);
    for (const Job& j : std::exchange(closing_, {})) j.events->closed(j.spec.roster.jobId);
  }

  ServerLoad load() const override { return {3, 1000, 20, 4096}; }
  size_t report(uint64_t, const std::shared_ptr<JobEvents>&) override { return 0; }

  static Blob handle(size_t from, size_t to) { return {static_cast<uint8_t>(from), static_cast<uint8_t>(to)}; }
  void refuse(std::string why) {
    MutexLock lock(mutex_);
    refusal_ = std::move(why);
  }
  void neverListen() {
    MutexLock lock(mutex_);
    listens_ = false;
  }
  void neverConnect() {
    MutexLock lock(mutex_);
    reportsConnected_ = false;
  }
  int opened() {
    MutexLock lock(mutex_);
    return opened_;
  }
  int connects() {
    MutexLock lock(mutex_);
    return connects_;
  }
  std::vector<Job> jobs() {
    MutexLock lock(mutex_);
    std::vector<Job> copy;
    for (const Job& job : jobs_) copy.push_back(job);
    return copy;
  }
  // Waits until the hub's goodbye has reached the first job.
  bool waitFinishing(double seconds = 5) {
    const Deadline deadline = soon(seconds);
    MutexLock lock(mutex_);
    bool finishing = false;
    while (!(finishing = !jobs_.empty() && jobs_.front().finishing) && !deadline.passed())
      changed_.waitUntil(mutex_, deadline.at());
    return finishing;
  }
  bool waitEmpty(double seconds = 5) {
    const Deadline deadline = soon(seconds);
    MutexLock lock(mutex_);
    while (!jobs_.empty() && !deadline.passed()) changed_.waitUntil(mutex_, deadline.at());
    return jobs_.empty();
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  std::vector<Job> jobs_ BPS_GUARDED_BY(mutex_);
  std::string refusal_ BPS_GUARDED_BY(mutex_);
  bool listens_ BPS_GUARDED_BY(mutex_) = true, reportsConnected_ BPS_GUARDED_BY(mutex_) = true;
  int opened_ BPS_GUARDED_BY(mutex_) = 0;
  int connects_ BPS_GUARDED_BY(mutex_) = 0;
  bool closesAtOnce_ BPS_GUARDED_BY(mutex_) = true;
  std::vector<Job> closing_ BPS_GUARDED_BY(mutex_);
};

// A ControlServer that runs on its own thread.
class TestServer {
 public:
  // `setting` holds from the first connection on.
  explicit TestServer(const Env& env = localEnv(), const Address& where = loopback(),
                      void (FakeRunner::*setting)() = nullptr) {
    if (setting) (runner.*setting)();
    auto made = server::ControlServer::create(env, where, std::move(serverKey(env)).value(), runner);
    EXPECT_TRUE(made.ok()) << made.error().message();
    server_ = std::move(made).value();
    thread_ = std::jthread([this] {
      task_ = ::gettid();
      EXPECT_TRUE(server_->run().ok());
    });
  }
  TestServer(const TestServer&) = delete;
  TestServer& operator=(const TestServer&) = delete;
  ~TestServer() { stop(); }

  std::string name() const { return server_->address().text(); }
  void stop() {
    server_->stop();
    wait();
  }
  void drain() { server_->drain(); }
  pid_t task() const { return task_; }
  const server::ServerCounters& counters() const { return server_->counters(); }
  void wait() {
    if (thread_.joinable()) thread_.join();
  }

  FakeRunner runner;

 private:
  std::unique_ptr<server::ControlServer> server_;
  std::atomic<pid_t> task_{0};
  std::jthread thread_;
};

inline Env withServers(const std::vector<const TestServer*>& servers, double timeout = 2) {
  Env env = localEnv(timeout);
  for (const TestServer* server : servers) env.servers += (env.servers.empty() ? "" : ",") + server->name();
  return env;
}

// Performs the first step of a communicator: exchanges the handles of all lanes, then waits until every server is
// connected.
inline void exchangeHandles(Cluster& cluster) {
  cluster.each([](uint32_t r, ControlPlane& plane) {
    std::vector<Blob> handles;
    for (size_t e = 0; e < plane.roster().endpoints(); ++e) handles.push_back(FakeRunner::handle(r, e));
    Result<std::vector<Blob>> swapped = plane.exchange(handles, soon());
    ASSERT_TRUE(swapped.ok()) << swapped.error().message();
    const std::vector<Blob> got = std::move(swapped).value();
    for (size_t e = 0; e < got.size(); ++e) {
      const bool absent =
          plane.roster().isServer(e) && !plane.roster().servers[e - plane.roster().machines.size()].present;
      EXPECT_EQ(got[e], absent ? Blob() : FakeRunner::handle(e, r));
    }
    const Status barrier = plane.barrier(soon());
    EXPECT_TRUE(barrier.ok()) << barrier.message();
    EXPECT_TRUE(plane.barrier(soon()).ok()) << "later barriers involve ranks only";
  });
}

}  // namespace bps::test
