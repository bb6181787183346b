// ControlServer: the control side of bps-server: lets hubs in, and keeps one Session per job.
//
// One thread, the one that calls run(), owns all sockets and sessions; the lane threads of the jobs reach it through
// JobEvents. It never waits for them, and sleeps without a timer while there is no connection. At most kMaxJobs
// sessions at once: if all places are taken, the oldest session whose job has not begun gives way. Strangers are
// bounded by the AuthListener.
#pragma once
#include <atomic>
#include <memory>
#include <optional>
#include <vector>

#include "src/base/env.h"
#include "src/base/mutex.h"
#include "src/control/link/auth_listener.h"
#include "src/server/event_queue.h"
#include "src/server/job.h"
#include "src/server/session.h"

namespace bps::server {

class ControlServer {
 public:
  static constexpr size_t kMaxJobs = 256;

  // Listens on `listen`; `key` is serverKey(env). The runner outlives the server.
  static Result<std::unique_ptr<ControlServer>> create(const Env& env, const Address& listen, const Key& key,
                                                       JobRunner& runner);
  Address address() const { return address_; }

  // Serves until the last job has ended after drain(), or until stop(). Fails only when it cannot wait any more.
  Status run();
  // New jobs are refused as "server is draining" from now on. Any thread, and signal handlers.
  void drain() { requestMode(Mode::kDrain); }
  // All jobs are closed now and their hubs told. Any thread, and signal handlers.
  void stop() { requestMode(Mode::kStop); }
  // The key of connections that are accepted from now on; those that exist stay. Any thread.
  void useKey(const Key& key);

 private:
  enum class Mode : int { kServe, kDrain, kStop };
  struct CreateArgs {
    AuthListener listener;
    Doorbell bell;
    Address address;
    Env env;
  };
  ControlServer(CreateArgs args, JobRunner& runner);
  void requestMode(Mode what);
  Mode requestedMode() const { return requestedMode_.load(std::memory_order_acquire); }
  Status pollOnce(PollSet& set);
  void receive(Peer hub);
  bool evictIdleSession();
  void closeIdleSessions();
  void deliver(EventQueue::Event event);
  void shutDown(PollSet& set);

  AuthListener listener_;
  const Address address_;
  const Env env_;
  JobRunner& runner_;
  const std::shared_ptr<EventQueue> events_;  // shared with the jobs, of which some may end after this
  // Memory ordering: release before the ring, acquire after the wake-up; only ever rises.
  std::atomic<Mode> requestedMode_{Mode::kServe};
  bool draining_ = false;
  Mutex mutex_;
  std::optional<Key> newKey_ BPS_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<Session>> sessions_;  // oldest first
};

}  // namespace bps::server
