// Session: a server's end of one connection from a hub: one job, from the offer to its end.
//
//   offered → open (a proposal was accepted) → running (the roster is final) → hub left → over
//
// The hub hears that a job is open once it listens: a server that cannot load its transport is left out.
//
// The job is closed at once when the hub fails, falls silent or breaks off. After the hub's goodbye it runs on until
// its last answers are on their way, at most for the job's time-out. Belongs to the control thread.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/control/link/doorman.h"
#include "src/control/link/link.h"
#include "src/server/control_events.h"
#include "src/server/job.h"

namespace bps::server {

struct SessionArgs {
  JobRunner& runner;
  EventQueue& events;
  Doorman& doorman;       // takes connections that have had their last word
  double bytesPerSecond;  // of this server's NIC, for the offer
  uint32_t timeoutMs;     // until the job's own is known
  const bool& draining;   // refuse to open jobs
  uint32_t mostJobs;      // that the server takes
};

class Session {
 public:
  Session(Peer hub, SessionArgs args);
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  ~Session();  // closes the job

  uint64_t job() const { return job_; }
  bool over() const { return state_ == State::kOver; }
  bool opened() const { return opened_; }
  void watch(PollSet& set) const;
  void step(const PollSet& set);
  // The server does not want this session: as busy.
  void dismiss(const std::string& why);
  // The server ends: the hub is told.
  void abort(const std::string& why);

  // What the job says.
  void listening(std::vector<Blob> handles);
  void connected();
  void failed(const Status& why);
  void lost(size_t rank, const std::string& why);
  void ended();

 private:
  enum class State { kOffered, kOpen, kRunning, kHubLeft, kOver };
  Status listen(const PollSet& set);
  Status handle(const Frame& frame);
  Status check(const Frame& frame);
  Status open(const Frame& frame);
  Status answer(const Frame& frame);
  Status unexpected(const Frame& frame) const;
  void hubLeft();
  void closeJob();
  void finish();
  std::string name() const;

  State state_ = State::kOffered;
  SessionArgs args_;
  std::unique_ptr<Link> hub_;
  const uint64_t job_;
  JobSpec spec_;
  bool opened_ = false;
  uint32_t proposal_ = 0;
  std::optional<std::vector<Blob>> handles_;
  Deadline end_ = Deadline::never();
};

}  // namespace bps::server
