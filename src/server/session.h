// Session: a server's side of one connection from a hub. The session serves one job from the offer
// to the end.
//
//   offered → opening (a proposal was accepted) → open (the job listens, and the hub knows that)
//   → exchanging (the roster is final) → connecting
//   → awaiting barrier (connected; waits for the other ranks and servers) → serving → hub left
//   → ending → over
//
// The table kRules in session.cc lists the messages that each state accepts. Any other message is a
// protocol error, which ends this session only. A new proposal replaces the previous proposal. The
// session first closes the job of the previous proposal.
//
// The job is closed at once if the hub fails, falls silent or disconnects. After the hub's goodbye
// the job runs until its last answers are sent, at most for the job's timeout. A session is over
// when its job's resources are free. The session belongs to the ControlServer. Only the control
// thread calls the functions of a session, and none of these functions blocks.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/control/link/auth_listener.h"
#include "src/control/link/link.h"
#include "src/server/event_queue.h"
#include "src/server/job.h"
#include "src/server/metrics/server_counters.h"
#include "src/server/status/status_requests.h"

namespace bps::server {

struct SessionArgs {
  JobRunner& runner;
  std::shared_ptr<EventQueue> events;
  AuthListener& listener;  // takes over connections that only need to send remaining output
  double bytesPerSecond;   // rate of this server's NIC, which the offer contains
  uint32_t timeoutMs;      // timeout that applies until the job's timeout is known
  const bool& draining;    // if true, the session refuses to open jobs
  uint32_t maxJobs;        // the server's limit
  StatusRequests& status;
  ServerCounters& counters;
  bool measuresClocks = false;  // compares the clock of the hub with this server's
};

class Session {
 public:
  Session(Peer hub, SessionArgs args);
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  ~Session();  // closes the job

  uint64_t job() const { return job_; }
  bool over() const { return state_ == State::kOver; }
  // True if a job of this session holds resources.
  bool opened() const { return jobState_ != JobState::kNone; }
  bool hasHub() const { return hub_ != nullptr; }
  // True if the roster is final, so that the ranks rely on this server.
  bool begun() const { return begun_.has_value(); }
  void watch(PollSet& set) const;
  void step(const PollSet& set);
  // Refuses this session, for example because the server is busy. Call reject() only while hasHub()
  // is true.
  void reject(const std::string& why);
  // Asks the hub, once, to give this server no further chunks and to end its part in the job.
  void drain();
  // Ends the session because the server stops; the hub receives the reason.
  void abort(const std::string& why);

  // Sends the report that the peer has asked for.
  void reportStatus(const StatusReport& report) {
    if (hub_) hub_->send(report);
  }

  // Events of the job.
  void listening(std::vector<Blob> handles);
  void connected();
  void failed(const Status& why);
  void lost(size_t rank, const std::string& why);
  void waits(const Heartbeat& wait) {
    if (hub_) hub_->setHeartbeat(wait);
  }
  void ended();
  void closed();

  enum class State {
    kOffered,
    kOpening,
    kOpen,
    kExchanging,
    kConnecting,
    kAwaitingBarrier,
    kServing,
    kHubLeft,
    kEnding,
    kOver
  };

 private:
  enum class JobState { kNone, kOpened, kClosing };  // the runner's job
  struct Rule;
  static const Rule kRules[];

  struct Received {
    Status status;
    bool reported = false;  // the hub has reported a failure, or broken the protocol
  };
  Received receive(const PollSet& set);
  bool losesHub() const;
  Status handle(const Frame& frame);
  Status check(const Frame& frame);
  Status status(const Frame& frame);
  Status open(const Frame& frame);
  Status begin(const Frame& frame);
  Status exchangeDone(const Frame& frame);
  Status barrierDone(const Frame& frame);
  Status memberLeft(const Frame& frame);
  Status hubFailed(const Frame& frame);
  Status hubLeft(const Frame& frame);
  Status hubLeftBeforeStart(const Frame& frame);
  Status unexpected(const Frame& frame) const;
  Result<ControlOpResult> decodeResult(const Frame& frame, ControlOp kind, size_t blobs) const;
  void start();
  void closeJob();
  // finish() and finishWithWarning() end the session and log the reason.
  void finish(const std::string& why);
  void finishWithWarning(const std::string& why);
  void leave();
  std::string summaryText(const std::string& why) const;
  std::string name() const;

  State state_ = State::kOffered;
  JobState jobState_ = JobState::kNone;
  SessionArgs args_;
  std::unique_ptr<Link> hub_;
  const uint64_t job_;
  std::shared_ptr<ClockOffset> clock_;  // null if it is not measured
  JobSpec spec_;
  uint32_t proposal_ = 0;
  std::vector<Blob> handles_;  // in state kOpen
  std::optional<Deadline::Clock::time_point> begun_;
  bool askedToLeave_ = false;
  Deadline end_ = Deadline::never();
};

}  // namespace bps::server
