// Cluster: the ranks of a communicator, each with its control plane, on threads of the test.
#pragma once
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "src/base/mutex.h"
#include "src/control/control_plane.h"

namespace bps::test {

using namespace std::chrono_literals;

inline Env localEnv(double timeout = 2) {
  Env env;
  env.socketIfname = "lo";
  env.timeout.value = timeout;
  env.keyFile = "/proc/sys/kernel/random/boot_id";  // any file with enough bytes serves as a key file
  env.keyFileShared = true;
  return env;
}

inline UniqueId newId(const Env& env) {
  Result<UniqueId> id = UniqueId::create(env);
  EXPECT_TRUE(id.ok()) << id.error().message();
  return id.ok() ? std::move(id).value() : UniqueId();
}

inline Address loopback(uint16_t port = 0) {
  sockaddr_in in{};
  in.sin_family = AF_INET;
  in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  in.sin_port = htons(port);
  return {reinterpret_cast<const sockaddr*>(&in), sizeof in};
}

// Returns a loopback address with a port that is free now.
inline Address freeAddress() {
  UniqueFd fd = std::move(listenOn(loopback())).value();
  return std::move(localAddress(fd.get())).value();
}

inline Deadline soon(double seconds = 5) {
  return Deadline::in(std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000)));
}

inline bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// Records the failures that a control plane reports to its rank.
class FailureRecorder {
 public:
  ControlPlane::Sinks sink() {
    return {[this](Status failure) {
              MutexLock lock(mutex_);
              ++count_;
              failure_ = std::move(failure);
              changed_.notifyAll();
            },
            [this](const ServerEvent& event) {
              MutexLock lock(mutex_);
              (event.kind == ServerEvent::Kind::kLost ? losses_ : changes_).push_back(event);
              changed_.notifyAll();
            }};
  }
  // Waits for this number of lost servers, and returns the losses.
  std::vector<ServerEvent> waitForLosses(size_t count, double seconds = 5) {
    const Deadline deadline = soon(seconds);
    MutexLock lock(mutex_);
    while (losses_.size() < count && !deadline.passed()) changed_.waitUntil(mutex_, deadline.at());
    return losses_;
  }
  // Waits for the next event of a change of the servers. Returns a loss, which is never such an event, if none arrives.
  ServerEvent waitForChange(double seconds = 5) {
    const Deadline deadline = soon(seconds);
    MutexLock lock(mutex_);
    while (changes_.size() == changesTaken_ && !deadline.passed()) changed_.waitUntil(mutex_, deadline.at());
    return changes_.size() == changesTaken_ ? ServerEvent() : changes_[changesTaken_++];
  }
  // Waits for a failure and returns its text, or "" if no failure arrives in time.
  std::string wait(double seconds = 5) {
    const Deadline deadline = soon(seconds);
    MutexLock lock(mutex_);
    while (count_ == 0 && !deadline.passed()) changed_.waitUntil(mutex_, deadline.at());
    return failure_.message();
  }
  int count() {
    MutexLock lock(mutex_);
    return count_;
  }
  Code code() {
    MutexLock lock(mutex_);
    return failure_.code();
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  int count_ BPS_GUARDED_BY(mutex_) = 0;
  Status failure_ BPS_GUARDED_BY(mutex_);
  std::vector<ServerEvent> losses_ BPS_GUARDED_BY(mutex_), changes_ BPS_GUARDED_BY(mutex_);
  size_t changesTaken_ BPS_GUARDED_BY(mutex_) = 0;
};

inline Result<std::unique_ptr<ControlPlane>> joinPlane(const Env& env, const JoinArgs& args, Deadline deadline,
                                                       ControlPlane::Sinks sinks) {
  auto plane = BPS_TRY(ControlPlane::create(env, args, std::move(sinks)));
  BPS_TRY(plane->join(deadline));
  return plane;
}

struct Rank {
  FailureRecorder failures;  // must outlive `plane`, which reports failures to it
  Status joined;
  std::unique_ptr<ControlPlane> plane;
};

// All ranks of one communicator, which join at the same time. hostOf(rank) names the machine of a rank.
class Cluster {
 public:
  using HostOf = std::function<std::string(uint32_t)>;

  explicit Cluster(uint32_t nRanks, Env env = localEnv(), HostOf hostOf = oneMachinePerRank)
      : Cluster(newId(env), nRanks, env, std::move(hostOf), {}) {}
  Cluster(const UniqueId& id, uint32_t nRanks, const Env& env, HostOf hostOf, const std::set<uint32_t>& absent)
      : ranks_(nRanks) {
    std::vector<std::jthread> threads;
    for (uint32_t r = 0; r < nRanks; ++r)
      if (absent.count(r) == 0) threads.emplace_back([&, r] { join(r, env, {id, r, nRanks, hostOf(r)}); });
    for (std::jthread& thread : threads) thread.join();
  }

  static std::string oneMachinePerRank(uint32_t rank) { return "machine " + std::to_string(rank); }

  Rank& operator[](size_t r) { return ranks_[r]; }
  // Throws if the rank has not joined, so that the test fails and the other tests of the program go on.
  ControlPlane& plane(size_t r) {
    if (ranks_[r].plane == nullptr) throw std::runtime_error("rank " + std::to_string(r) + " has not joined");
    return *ranks_[r].plane;
  }
  size_t size() const { return ranks_.size(); }
  void expectJoined() {
    for (Rank& rank : ranks_) ASSERT_TRUE(rank.joined.ok()) << rank.joined.message();
  }
  void expectOthersJoined(size_t absent) {
    for (size_t r = 0; r < ranks_.size(); ++r) {
      if (r == absent) continue;
      ASSERT_TRUE(ranks_[r].joined.ok()) << ranks_[r].joined.message();
    }
  }
  // Runs `body` for every rank, each on its own thread.
  void each(const std::function<void(uint32_t, ControlPlane&)>& body) {
    std::vector<std::jthread> threads;
    for (uint32_t r = 0; r < ranks_.size(); ++r)
      if (ranks_[r].plane) threads.emplace_back([&, r] { body(r, *ranks_[r].plane); });
    for (std::jthread& thread : threads) thread.join();
  }
  void leave() {
    each([](uint32_t, ControlPlane& plane) { plane.leave(soon()); });
  }

 private:
  void join(uint32_t r, const Env& env, const JoinArgs& args) {
    const auto timeout = std::chrono::milliseconds(static_cast<int64_t>(env.timeout.value * 1000));
    auto plane = joinPlane(env, args, Deadline::in(timeout), ranks_[r].failures.sink());
    if (plane.ok()) ranks_[r].plane = std::move(plane).value();
    else ranks_[r].joined = std::move(plane).status();
  }
  std::vector<Rank> ranks_;
};

}  // namespace bps::test
