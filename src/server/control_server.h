// ControlServer: the control side of bps-server: accepts connections from hubs and keeps one Session per job.
//
// The thread that calls run() owns all sockets and sessions. The jobs' lane threads reach it through JobEvents; it
// never waits for them. Without connections it sleeps without a timer. At most kMaxJobs sessions exist at once: if
// there are more, the oldest session whose job has not begun is rejected. The AuthListener bounds unauthenticated
// connections.
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

  // Listens on `listen`; `key` is serverKey(env). The runner must outlive the server.
  static Result<std::unique_ptr<ControlServer>> create(const Env& env, const Address& listen, const Key& key,
                                                       JobRunner& runner);
  Address address() const { return address_; }

  // Serves until stop(), or after drain() until the last job has ended. Fails only if it cannot poll any more.
  Status run();
  // From now on new jobs are refused as "server is draining". Any thread, and signal handlers.
  void drain() { requestMode(Mode::kDrain); }
  // Closes all jobs now and tells their hubs. Any thread, and signal handlers.
  void stop() { requestMode(Mode::kStop); }
  // Sets the key of connections accepted from now on; existing ones stay open. Any thread.
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
  void admit(Peer hub);
  bool evictIdleSession();
  void closeIdleSessions();
  void deliver(EventQueue::Event event);
  void shutDown(PollSet& set);

  AuthListener listener_;
  const Address address_;
  const Env env_;
  JobRunner& runner_;
  const std::shared_ptr<EventQueue> events_;  // shared with the jobs, which may end after this object
  // Memory ordering: release before the ring, acquire after the wake-up. The value only rises.
  std::atomic<Mode> requestedMode_{Mode::kServe};
  bool draining_ = false;
  Mutex mutex_;
  std::optional<Key> newKey_ BPS_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<Session>> sessions_;  // oldest first
};

}  // namespace bps::server
