// Tests JobThread, a thread of the server that runs jobs from their opening to their end. A job that fails must not
// disturb other jobs. The test acts as the hub and as the two worker machines, over loopback.
#include "src/server/job_thread.h"

#include "src/comm/lanes/lane.h"
#include "tests/unit/comm/lanes/fake_buffers.h"
#include "tests/unit/net/net_fixture.h"

namespace bps::test {
namespace {

using namespace std::chrono_literals;

// Records each event of the jobs as a text.
class EventRecorder final : public JobEvents {
 public:
  void listening(uint64_t job, std::vector<Blob> handles) override {
    MutexLock lock(mutex_);
    handles_ = std::move(handles);
    add(job, "listening");
  }
  void connected(uint64_t job) override { note(job, "connected"); }
  void failed(uint64_t job, Status why) override { note(job, std::string("failed: ") + why.message()); }
  void lost(uint64_t job, size_t rank, std::string) override { note(job, "lost rank " + std::to_string(rank)); }
  void waits(uint64_t job, const Heartbeat& wait) override {
    note(job, wait.waitsFor == Heartbeat::kNobody ? "waits no more" : "waits for " + std::to_string(wait.waitsFor));
  }
  void ended(uint64_t job) override { note(job, "ended"); }
  void closed(uint64_t job) override { note(job, "closed"); }
  void reported(uint64_t collection, std::vector<JobReport> jobs) override {
    MutexLock lock(mutex_);
    reports_ = std::move(jobs);
    add(collection, "reported");
  }
  std::vector<JobReport> reports() {
    MutexLock lock(mutex_);
    return reports_;
  }

  std::vector<std::string> all() {
    MutexLock lock(mutex_);
    return events_;
  }
  // Waits for the first event that begins with `begin`, from event number `from` on. Returns the event, or "" if it
  // does not come in time.
  std::string wait(const std::string& begin, size_t from = 0) {
    const Deadline deadline = Deadline::in(10s);
    MutexLock lock(mutex_);
    while (true) {
      for (size_t i = from; i < events_.size(); ++i)
        if (events_[i].starts_with(begin)) return events_[i];
      if (deadline.passed()) return "";
      changed_.waitUntil(mutex_, deadline.at());
    }
  }
  std::vector<Blob> handles() {
    MutexLock lock(mutex_);
    return handles_;
  }

 private:
  void note(uint64_t job, const std::string& text) {
    MutexLock lock(mutex_);
    add(job, text);
  }
  void add(uint64_t job, const std::string& text) BPS_REQUIRES(mutex_) {
    events_.push_back(std::to_string(job) + " " + text);
    changed_.notifyAll();
  }
  Mutex mutex_;
  CondVar changed_;
  std::vector<std::string> events_ BPS_GUARDED_BY(mutex_);
  std::vector<Blob> handles_ BPS_GUARDED_BY(mutex_);
  std::vector<JobReport> reports_ BPS_GUARDED_BY(mutex_);
};

class JobThreadTest : public testing::Test {
 protected:
  static constexpr size_t kMachines = 2, kServer = 2;
  static constexpr JobResources kNeed{10, 1000};

  void SetUp() override {
    plugin_ = loadBpsPlugin();
    thread_ = std::move(JobThread::start(Env(), {}, closer_)).value();
  }
  Roster roster(uint64_t job) {
    Roster roster;
    roster.jobId = job;
    roster.ranks = {{"a", "hostA", 1, 0, 0}, {"b", "hostB", 2, 1, 0}};
    roster.machines = {{{0}, 0}, {{1}, 0}};
    roster.servers = {{"cpu1:7700", 0}};
    roster.settings.timeoutMs = 500;
    roster.settings.partitionBytes = 1U << 20;
    return roster;
  }
  void open(uint64_t job) {
    const Roster spec = roster(job);
    plan_ = valueOf(JobPlan::make(spec));
    plan_.owners = {false, false, true};
    plan_.weights = {0, 0, 1};
    thread_->open({{spec, kServer}, plan_, events_, valueOf(Quota::reserve(quota_, kNeed))});
    ASSERT_NE(events_->wait(std::to_string(job) + " listening"), "");
  }
  // Connects the lanes of both machines to `job`, which has just been opened.
  void connect(uint64_t job) {
    std::vector<net::Mesh> meshes;
    std::vector<Blob> handles(kMachines + 1);
    for (size_t m = 0; m < kMachines; ++m) {
      meshes.push_back(valueOf(net::Mesh::createListening(*plugin_, 0, {m, kMachines, plan_.owners})));
      handles[m] = meshes[m].handles()[kServer];
      std::vector<Blob> peers(kMachines + 1);
      peers[kServer] = events_->handles()[m];
      ASSERT_TRUE(meshes[m].setPeerHandles(peers).ok());
    }
    thread_->connect(job, handles);
    const Deadline deadline = Deadline::in(10s);
    for (size_t m = 0; m < kMachines; ++m)
      while (!meshes[m].connected() && !deadline.passed())
        for (net::Mesh& mesh : meshes) ASSERT_TRUE(mesh.step().ok());
    ASSERT_NE(events_->wait(std::to_string(job) + " connected"), "");
    for (size_t m = 0; m < kMachines; ++m)
      lanes_[m] = valueOf(
          RemoteLane::create(buffers_[m], {plan_.depth, plan_.limits.maxChunkBytes, false}, meshes[m].take(kServer)));
  }
  void submit(size_t machine, CallOp op = CallOp::kSum) {
    Collective& call = buffers_[machine].add(1, 64, {});
    call.call.type = 1;  // uint8
    call.call.count = 64;
    call.call.op = static_cast<uint8_t>(op);
    lanes_[machine]->submit(call, 0);
    ASSERT_TRUE(lanes_[machine]->step(lanes_[machine]->oldestRound()).ok());
  }
  bool bothFinish() {
    const Deadline deadline = Deadline::in(10s);
    while (!deadline.passed()) {
      bool idle = true;
      for (const auto& lane : lanes_) {
        EXPECT_TRUE(lane->step(lane->oldestRound()).ok());
        idle = idle && lane->idle();
      }
      if (idle) return true;
    }
    return false;
  }

  std::shared_ptr<net::Plugin> plugin_;
  std::shared_ptr<Quota> quota_ = std::make_shared<Quota>(1000, JobResources{1000, 100000});
  std::shared_ptr<EventRecorder> events_ = std::make_shared<EventRecorder>();
  JobPlan plan_;
  JobCloser closer_;
  std::unique_ptr<JobThread> thread_;
  FakeBuffers buffers_[kMachines];
  std::unique_ptr<Lane> lanes_[kMachines];
};

TEST_F(JobThreadTest, ServesAJobFromItsOpeningToItsEnd) {
  open(5);
  EXPECT_EQ(thread_->jobs(), 1U);
  connect(5);
  for (size_t m = 0; m < kMachines; ++m) submit(m);
  EXPECT_TRUE(bothFinish());
  for (FakeBuffers& buffers : buffers_) EXPECT_EQ(buffers.target(0, 0), FakeBuffers::Bytes(64, 2));
  thread_->finish(5);
  EXPECT_NE(events_->wait("5 ended"), "");
  thread_->close(5, events_);
  EXPECT_NE(events_->wait("5 closed"), "");
  EXPECT_EQ(events_->all(), (std::vector<std::string>{"5 listening", "5 connected", "5 ended", "5 closed"}));
  EXPECT_EQ(thread_->jobs(), 0U);
  const Deadline deadline = Deadline::in(5s);
  while (thread_->bytesSummed() == 0 && !deadline.passed()) std::this_thread::sleep_for(1ms);
  EXPECT_EQ(thread_->bytesSummed(), 2 * 64U) << "the bytes of a job that has ended still count";
}

TEST_F(JobThreadTest, AReportNamesTheCallsInFlightAndTheMachinesThatTheyWaitFor) {
  thread_->report(70, events_);
  ASSERT_NE(events_->wait("70 reported"), "");
  EXPECT_TRUE(events_->reports().empty());
  open(5);
  thread_->report(71, events_);
  ASSERT_NE(events_->wait("71 reported"), "");
  ASSERT_EQ(events_->reports().size(), 1U);
  EXPECT_EQ(events_->reports()[0].state, "waiting for the workers");
  connect(5);
  submit(0);
  JobReport job;
  for (uint64_t n = 72; job.calls.empty() && n < 1000; ++n) {
    thread_->report(n, events_);
    ASSERT_NE(events_->wait(std::to_string(n) + " reported"), "");
    job = events_->reports().at(0);
    ASSERT_TRUE(lanes_[0]->step(lanes_[0]->oldestRound()).ok());
  }
  EXPECT_EQ(job.id, 5U);
  EXPECT_EQ(job.state, "serving");
  EXPECT_EQ(job.hub, "rank 0 (hostA, pid 1)");
  EXPECT_EQ(job.machines, 2U);
  EXPECT_EQ(job.ranks, 2U);
  ASSERT_EQ(job.calls.size(), 1U);
  EXPECT_EQ(job.calls[0].bytes, 64U);
  ASSERT_EQ(job.lanes.size(), 2U);
  EXPECT_EQ(job.lanes[0].peer, "rank 1 (hostB, pid 2)") << "the lane that is waited for comes first";
  EXPECT_EQ(job.lanes[0].missing, 1U);
  EXPECT_EQ(job.lanes[1].peer, "rank 0 (hostA, pid 1)");
  EXPECT_EQ(job.lanes[1].missing, 0U);
  submit(1);
  EXPECT_TRUE(bothFinish());
  thread_->report(2000, events_);
  ASSERT_NE(events_->wait("2000 reported"), "");
  EXPECT_TRUE(events_->reports().at(0).calls.empty());
}

TEST_F(JobThreadTest, ResourcesAreFreeBeforeClosedIsTold) {
  const size_t before = quota_->left().descriptors;
  open(5);
  EXPECT_LT(quota_->left().descriptors, before);
  thread_->close(5, events_);
  EXPECT_NE(events_->wait("5 closed"), "");
  EXPECT_EQ(quota_->left().descriptors, before);
}

TEST_F(JobThreadTest, AJobWithWrongHandlesFailsAndTheOthersGoOn) {
  open(5);
  thread_->connect(5, std::vector<Blob>(3, Blob{1, 2, 3}));
  EXPECT_EQ(events_->wait("5 failed"), "5 failed: endpoint 0 sent 3 bytes of handles, expected 129");
  open(6);
  connect(6);
  for (size_t m = 0; m < kMachines; ++m) submit(m);
  EXPECT_TRUE(bothFinish());
  thread_->close(5, events_);
  EXPECT_NE(events_->wait("5 closed"), "") << "closing a job that has failed is still answered";
}

TEST_F(JobThreadTest, MachinesThatDisagreeFailTheJobNamingBoth) {
  open(5);
  connect(5);
  submit(0);
  submit(1, CallOp::kMax);
  const std::string failure = events_->wait("5 failed");
  for (const char* part : {"rank 0 (hostA", "rank 1 (hostB", "sum", "max"})
    EXPECT_NE(failure.find(part), std::string::npos) << failure;
}

TEST_F(JobThreadTest, AWorkerWhoseLanesEndIsLostOnceAndTheJobEndsWithTheLast) {
  open(5);
  connect(5);
  lanes_[1].reset();
  EXPECT_EQ(events_->wait("5 lost"), "5 lost rank 1");
  lanes_[0].reset();
  EXPECT_NE(events_->wait("5 ended"), "");
  EXPECT_EQ(events_->all(),
            (std::vector<std::string>{"5 listening", "5 connected", "5 lost rank 1", "5 lost rank 0", "5 ended"}));
}

TEST_F(JobThreadTest, AMachineThatACallWaitsForIsReportedUntilItComes) {
  open(5);
  connect(5);
  submit(0);
  EXPECT_EQ(events_->wait("5 waits"), "5 waits for 1");
  const size_t seen = events_->all().size();
  submit(1);
  EXPECT_TRUE(bothFinish());
  EXPECT_EQ(events_->wait("5 waits", seen), "5 waits no more");
}

TEST_F(JobThreadTest, EndsWithJobsThatAreStillOpen) {
  open(5);
  connect(5);
  thread_.reset();
  EXPECT_EQ(quota_->left().descriptors, 1000U);
}

}  // namespace
}  // namespace bps::test
