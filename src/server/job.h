// The two sides of a job inside bps-server: sessions (control thread) open and close jobs; the lane threads run them.
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
  size_t endpoint = 0;  // this server's, roster.machines.size() + j
};

// What a running job tells its session. Any thread may call these functions; none of them blocks.
class JobEvents {
 public:
  virtual ~JobEvents() = default;
  // Handles by rail and endpoint, one rail after the other.
  virtual void listening(uint64_t job, std::vector<Blob> handles) = 0;
  virtual void connected(uint64_t job) = 0;
  virtual void failed(uint64_t job, Status why) = 0;  // the session tells the hub, then calls close()
  // The connection with a rank ended. In good order if it has said goodbye; else the hub is to hear why.
  virtual void lost(uint64_t job, size_t rank, std::string why) = 0;
  // This server has waited for a rank for the job's time-out, in the call of this number; or does not any more.
  virtual void waits(uint64_t job, const Heartbeat& wait) = 0;
  virtual void ended(uint64_t job) = 0;   // nothing is left to do: see finish(), or all workers have closed their lanes
  virtual void closed(uint64_t job) = 0;  // close() is done: the job's resources are free; its last event
};

// What the jobs of a server take, for `bps-server --check`.
struct ServerLoad {
  uint32_t jobs = 0;
  uint64_t bytesSummed = 0;                     // since the server has started
  uint64_t freeDescriptors = 0, freeBytes = 0;  // that jobs may still take
};

// Runs jobs. Called by the control thread. No call waits for a peer or for another thread. The caller keeps the order
// open, connect, finish, close: each at most once for a job, and none for a job that is not open.
class JobRunner {
 public:
  virtual ~JobRunner() = default;
  // Refuses (memory, limits) with a reason, or starts the job; listening() follows. This server's memory for the job
  // is bounded by what is computed here from the spec.
  virtual Status open(const JobSpec& spec, std::shared_ptr<JobEvents> events) = 0;
  // What the other endpoints sent in the exchange, one blob for each rail and endpoint; connected() follows.
  virtual void connect(uint64_t job, std::vector<Blob> handles) = 0;
  // The hub has said goodbye: its calls are complete, so nobody will contribute again. The job has ended once its
  // last answers are with the transport, whether or not that tells when a worker closes its lanes.
  virtual void finish(uint64_t job) = 0;
  // Starts to free the job. Events of the job may still come; closed() is the last one, and once it has come the job's
  // id may be opened again.
  virtual void close(uint64_t job) = 0;
  virtual ServerLoad load() const = 0;
};

}  // namespace bps
