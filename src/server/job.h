// The two sides of a job inside bps-server: sessions (control thread) open and close jobs, lane threads run them.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "src/base/io/wire_io.h"
#include "src/base/status.h"
#include "src/wire/control_messages.h"
#include "src/wire/roster.h"

namespace bps {

struct JobSpec {
  Roster roster;
  size_t endpoint = 0;  // this server's: roster.machines.size() + its index
};

// Events of a running job for its session. Any thread may call these functions; none of them blocks.
class JobEvents {
 public:
  virtual ~JobEvents() = default;
  // Handles of all rails and endpoints, one rail after the other.
  virtual void listening(uint64_t job, std::vector<Blob> handles) = 0;
  virtual void connected(uint64_t job) = 0;
  virtual void failed(uint64_t job, Status why) = 0;  // the session tells the hub, then calls close()
  // The connection to a rank has ended. That is normal if the rank has said goodbye; otherwise the hub receives `why`.
  virtual void lost(uint64_t job, size_t rank, std::string why) = 0;
  // This server has waited for a rank for the job's timeout in the given call, or no longer waits.
  virtual void waits(uint64_t job, const Heartbeat& wait) = 0;
  // nothing is left to do: after finish(), or all workers have closed their lanes
  virtual void ended(uint64_t job) = 0;
  virtual void closed(uint64_t job) = 0;  // the job's last event after close(): its resources are free
};

// What the jobs of a server use, for `bps-server --check`.
struct ServerLoad {
  uint32_t jobs = 0;
  uint64_t bytesSummed = 0;                     // since the start of the server
  uint64_t freeDescriptors = 0, freeBytes = 0;  // available to more jobs
};

// Runs jobs. Called by the control thread; no call waits for a peer or another thread. The caller keeps the order open,
// connect, finish, close, calls each at most once per job, and only for an open job.
class JobRunner {
 public:
  virtual ~JobRunner() = default;
  // Starts the job, or refuses it (memory, limits) with a reason; listening() follows. The memory that the job may use
  // here is bounded by what open() computes from the spec.
  virtual Status open(const JobSpec& spec, std::shared_ptr<JobEvents> events) = 0;
  // Passes the handles that the other endpoints sent in the exchange, one per rail and endpoint; connected() follows.
  virtual void connect(uint64_t job, std::vector<Blob> handles) = 0;
  // The hub has said goodbye: all its calls are complete, so no contribution will arrive. The job ends once its last
  // answers are passed to the transport. It does not wait for the workers to close their lanes, which not every
  // transport reports.
  virtual void finish(uint64_t job) = 0;
  // Starts to free the job. Further events may arrive; closed() is the last one. After it the job's id may be opened
  // again.
  virtual void close(uint64_t job) = 0;
  virtual ServerLoad load() const = 0;
};

}  // namespace bps
