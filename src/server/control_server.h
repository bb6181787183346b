// ControlServer: the control side of bps-server. The ControlServer accepts connections from hubs
// and keeps one Session per job.
//
// The control thread is the thread that calls run(). All sockets and sessions belong to this
// thread. The lane threads, which run the jobs (job_thread.h), send events to the control thread
// through JobEvents. The control thread never waits for a lane thread. Without connections, the
// control thread sleeps without a timer. At most kMaxJobs sessions exist at the same time. If a hub
// connects beyond this limit, the server rejects the oldest session whose job has not begun, or the
// new connection if all jobs have begun. The AuthListener limits the number of unauthenticated
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
#include "src/server/status/status_requests.h"

namespace bps::server {

class ControlServer {
 public:
  static constexpr size_t kMaxJobs = 256;

  // Listens on `listen`; `key` is serverKey(env). The runner must outlive the server.
  static Result<std::unique_ptr<ControlServer>> create(const Env& env, const Address& listen, const Key& key,
                                                       JobRunner& runner);
  Address address() const { return address_; }

  // Serves until stop() is called or, after drain(), until the last job has ended. Fails only if
  // polling fails.
  Status run();
  // From now on the server refuses new jobs with the reason "server is draining", and asks the hubs
  // of its jobs to go on without it. Any thread and any signal handler may call drain().
  void drain() { requestMode(Mode::kDrain); }
  // Closes all jobs immediately and tells their hubs. Any thread and any signal handler may call
  // stop().
  void stop() { requestMode(Mode::kStop); }
  // Logs the state of all jobs. Any thread and any signal handler may call logStatus().
  void logStatus();
  // The counters may be read by any thread.
  const ServerCounters& counters() const { return counters_; }
  const AdmissionCounters& admissions() const { return *listener_.counters(); }
  // True after drain() or stop(). Any thread may call draining().
  bool draining() const { return requestedMode() != Mode::kServe; }
  // Makes the control thread take a turn of its loop, which counters().turns counts. Any thread may call wake().
  void wake() const { events_->bell().ring(); }
  // Sets the key for connections that the server accepts from now on. Existing connections stay
  // open. Any thread may call useKey().
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
  void drainSessions();
  void deliver(EventQueue::Event event);
  void answerStatus();
  void shutDown(PollSet& set);

  AuthListener listener_;
  const Address address_;
  const Env env_;
  JobRunner& runner_;
  const std::shared_ptr<EventQueue> events_;  // shared with the jobs, which may end after this object
  // Memory ordering: a thread stores the mode with release order before it rings the doorbell. The
  // control thread loads the mode with acquire order after it wakes up. The mode only increases.
  std::atomic<Mode> requestedMode_{Mode::kServe};
  bool draining_ = false;
  StatusRequests status_;
  ServerCounters counters_;
  Mutex mutex_;
  std::optional<Key> newKey_ BPS_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<Session>> sessions_;  // oldest first
};

}  // namespace bps::server
