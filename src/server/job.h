// The interfaces between the two sides of a job inside bps-server. The sessions, on the control
// thread, open and close jobs. The lane threads run the jobs.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "src/base/io/wire_io.h"
#include "src/base/status.h"
#include "src/wire/clock_offset.h"
#include "src/wire/control_messages.h"
#include "src/wire/roster.h"
#include "src/wire/status_report.h"

namespace bps {

struct JobSpec {
  Roster roster;
  size_t endpoint = 0;                         // this server's endpoint: roster.machines.size() + server index
  std::shared_ptr<const ClockOffset> clock{};  // by how much the clock of the hub is ahead; null without BPS_TRACE
  // Takes memory of the server for the parameters of the job.
  std::function<Status(size_t bytes)> reserve{};
};

// Receives the events of a running job and passes them to the job's session. Any thread may call
// these functions; none of them blocks.
class JobEvents {
 public:
  virtual ~JobEvents() = default;
  // The job listens for its peers. `handles` has the handles of all endpoints, one rail after
  // another.
  virtual void listening(uint64_t job, std::vector<Blob> handles) = 0;
  virtual void connected(uint64_t job) = 0;
  virtual void failed(uint64_t job, Status why) = 0;  // the session tells the hub, then calls close()
  // The connection to a rank has ended. An end is normal after the rank's goodbye. Otherwise the
  // hub receives `why`.
  virtual void lost(uint64_t job, size_t rank, std::string why) = 0;
  // This server has waited for a rank for the job's timeout, or it no longer waits. `wait` names
  // the rank and the call.
  virtual void waits(uint64_t job, const Heartbeat& wait) = 0;
  // The job has nothing left to do, because finish() was called or all workers have closed their
  // lanes.
  virtual void ended(uint64_t job) = 0;
  virtual void closed(uint64_t job) = 0;  // last event, after close(); the resources are free
  // The jobs of one thread, for JobRunner::report().
  virtual void reported(uint64_t collection, std::vector<JobReport> jobs) = 0;
};

// The resources that the jobs of a server use. `bps-server --check` prints them.
struct ServerLoad {
  uint32_t jobs = 0;
  uint64_t bytesSummed = 0;                     // since the start of the server
  uint64_t freeDescriptors = 0, freeBytes = 0;  // available to more jobs
};

// Runs jobs. Only the control thread calls these functions, and none of them waits for a peer or
// another thread. For each job, the control thread calls open(), connect(), finish() and close() in
// this order, each at most once. The control thread calls connect(), finish() and close() only for
// an open job.
class JobRunner {
 public:
  virtual ~JobRunner() = default;
  // Starts the job; the event listening() follows. If the job needs too much memory or exceeds
  // another limit, open() fails with the reason. From the spec, open() computes an upper bound of
  // the memory that the job uses on this server.
  virtual Status open(const JobSpec& spec, std::shared_ptr<JobEvents> events) = 0;
  // Passes the handles that the other endpoints sent in the exchange, one per rail and endpoint.
  // The event connected() follows.
  virtual void connect(uint64_t job, std::vector<Blob> handles) = 0;
  // In asynchronous training: a machine is lost or has left.
  virtual void lose(uint64_t job, size_t machine) = 0;
  // Called after the hub's goodbye: all calls of the job are complete, so no contribution will
  // arrive. The job ends as soon as its last answers are passed to the transport. The job does not
  // wait until the workers close their lanes, because not every transport reports that.
  virtual void finish(uint64_t job) = 0;
  // Starts to free the job. More events of the job may arrive; the last event is closed(). After
  // closed(), a job with the same id may be opened.
  virtual void close(uint64_t job) = 0;
  virtual ServerLoad load() const = 0;
  // Asks all threads for the state of their jobs. Each of them answers with reported() and this number. Returns the
  // number of threads.
  virtual size_t report(uint64_t collection, const std::shared_ptr<JobEvents>& events) = 0;
};

}  // namespace bps
