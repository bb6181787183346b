// ChunkService: what the owner of chunks does with them. A SumService sums the contributions of all machines to a
// chunk. A ParamService adds the contribution of each machine to a parameter at once.
//
// The local machine, if any, is the machine that the service runs in. It has no connections to the service: it offers
// its chunks by pointer. A ChunkService belongs to a DataPlane or a ServedJob, and one thread uses it. It never blocks.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "src/service/contribution_receiver.h"
#include "src/service/peer_wait.h"
#include "src/service/service_counters.h"
#include "src/service/summation.h"
#include "src/service/wait_times.h"

namespace bps {

// A chunk of the local machine. `source` and `target` must stay valid until retired() is greater than the number of the
// chunk.
struct LocalChunk {
  CallInfo call;
  const void* source = nullptr;
  void* target = nullptr;
  size_t bytes = 0;
  std::optional<ParamPart> part = std::nullopt;
  std::function<void(const ParamClock&)> note = {};   // learns the clock of the answer, if there is a part
  std::optional<ParamClock> restored = std::nullopt;  // for kParamRestore
};

class ChunkService {
 public:
  // The two connections with one machine: contributions arrive on `push`, and answers leave on `answer`.
  struct Lane {
    std::unique_ptr<net::Comm> push, answer;
  };
  virtual ~ChunkService() = default;

  // Makes progress and returns whether anything moved. After a failure, failedMachine() is the machine whose connection
  // broke, if any. If a machine has only closed its push connection, step() fails once, and may be called again.
  virtual Result<bool> step() = 0;
  virtual std::optional<size_t> failedMachine() const = 0;

  // The machine is lost, although its connections may still exist.
  virtual void lose(size_t) {}
  virtual bool lost(size_t) const { return false; }
  // An endpoint is lost; all living machines will restore its parts (parameters/param_service.h).
  virtual void beginTakeover(size_t) {}
  // An endpoint that another machine has lost, and this one has not.
  virtual std::optional<size_t> lostElsewhere() const { return {}; }

  virtual bool canOffer() const = 0;
  virtual void offer(const LocalChunk& chunk) = 0;
  // The number of local chunks whose answer is in their target and whose target is no longer read.
  virtual uint64_t retired() = 0;
  // True if every answer has been passed to the transport.
  virtual bool drained() const = 0;
  // True if contributions wait or answers are being sent.
  virtual bool active() const = 0;
  virtual uint64_t bytesSummed() const = 0;  // of contributions
  virtual ServiceCounters counters() const = 0;
  // For how long the service has waited for each machine. Stays at 0 unless the spec asks for it.
  virtual const WaitTimes& waitTimes() const = 0;

  // If the oldest chunk has waited for waitReportTime, returns the endpoint that it waits for. Call checkWait()
  // regularly.
  virtual std::optional<EndpointWait> checkWait() = 0;
  // The calls of chunks that wait, at most kMaxPendingCalls, and the machines that they wait for.
  static constexpr size_t kMaxPendingCalls = 8;
  virtual std::vector<CallInfo> pendingCalls() const = 0;
  virtual void addPeerWaits(std::vector<PeerWait>& waits) const = 0;
  virtual void forEachComm(const std::function<void(net::Comm&)>& use) = 0;
};

}  // namespace bps
