// Collective: one all-reduce in flight on this rank. The calling thread makes the Collective. After
// submit() the Collective belongs to the holder of the progress lock (progress_engine.h).
#pragma once
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "src/base/mutex.h"
#include "src/comm/call/staged_call.h"
#include "src/comm/call/stream_position.h"
#include "src/comm/metrics/comm_counters.h"
#include "src/plan/bcube/bcube.h"
#include "src/plan/cutter.h"
#include "src/wire/data_header.h"

namespace bps {

// One chunk of a call. The chunks of a call have the same order on all ranks: first a chunk for the
// checker, then round by round, and owner by owner within a round. A call always has a chunk for
// its checker, which may have zero bytes. The checker's chunk is the first, so that no other chunk
// of the call delays it. A chunk on the exchange path has no owner, because every machine sums it.
struct ChunkRef {
  static constexpr uint32_t kExchangePath = UINT32_MAX;

  bool usesExchangePath() const { return owner == kExchangePath; }
  uint32_t owner = 0;
  size_t offset = 0;  // bytes
  size_t bytes = 0;
  uint32_t round = 0;   // of the call; round 0 has the first chunk of each owner
  bool onGpu = false;   // true for a staged chunk that bypasses host memory
  uint32_t thread = 0;  // the thread of a BCube (plan/bcube/bcube.h) that carries the chunk
};

class ParamCopies;

// The parameter of a call on it (service/param_service.h).
struct ParamCall {
  // How many pushes of each machine the answers contain: the fewest of all parts.
  class Progress {
   public:
    void note(const ParamClock& answer) {
      MutexLock lock(mutex_);
      if (machines_.empty()) machines_ = answer.machines;
      for (size_t m = 0; m < std::min(machines_.size(), answer.machines.size()); ++m)
        machines_[m] = std::min(machines_[m], answer.machines[m]);
    }
    std::vector<uint32_t> machines() const {
      MutexLock lock(mutex_);
      return machines_;
    }
    uint32_t of(size_t index) const {
      MutexLock lock(mutex_);
      return index < machines_.size() ? machines_[index] : 0;
    }

   private:
    mutable Mutex mutex_;
    std::vector<uint32_t> machines_ BPS_GUARDED_BY(mutex_);
  };
  uint32_t param = 0;
  uint32_t push = 0;   // as ParamPart::push
  uint64_t first = 0;  // the element of the parameter where the buffers of the call begin
  std::shared_ptr<Progress> progress = std::make_shared<Progress>();
  std::shared_ptr<ParamCopies> copies = nullptr;  // keeps the answers
  ParamClock restored = {};                       // for kParamRestore: of the value
  uint32_t machine = 0;                           // as ParamPart::machine

  void note(const ParamClock& answer) const { progress->note(answer); }
};

struct Collective {
  CallInfo call;
  std::optional<ParamCall> param{};
  const uint8_t* send = nullptr;
  uint8_t* recv = nullptr;
  bool stageSend = false, stageRecv = false;  // true if the CPU cannot access the buffer (staged_buffers.h)
  bool stageScalar = false;                   // the same for the scalar
  const void* deviceScalar = nullptr;         // null, or the place of the scalar, read when the call begins
  std::shared_ptr<StreamPosition> position;
  std::shared_ptr<const StagedCall> staging;  // null if the call is not on a CUDA stream
  bool onHostStream = true;
  CutLimits limits;
  CommCounters* counters = nullptr;                     // null if nothing counts the call (BPS_METRICS)
  std::chrono::steady_clock::time_point submittedAt{};  // set if the call is counted or recorded (BPS_TRACE)
  bool copyRecorded = false;                            // the end of the copies from the device is recorded

  // The next members are set when the call is cut (call_cutter.h).
  std::vector<ChunkRef> chunks;
  size_t window = 1;  // number of rounds in flight (lane.h)
  size_t rounds = 0;
  size_t remaining = 0;  // the number of chunks whose result is not in `recv` yet

  // The next members are set when the call begins.
  bool onAllRails = false;  // true if the call uses all rails (plan/rails.h)
  uint64_t firstRound = 0;  // the number of the call's round 0 among all rounds of the data plane
  uint64_t firstChunk = 0;  // the index of chunks[0] among all chunks in the local ring

  // The part of the parameter that a chunk carries; none if this is no call on a parameter.
  std::optional<ParamPart> partOf(const ChunkRef& chunk) const;
  bool hasManyRounds() const { return rounds >= 8; }
  bool inPlace() const { return send == recv; }
};

// Call countBegin() when the program issues the call, and countEnd() when the call has ended. `counters` may be null.
void countBegin(Collective& call, CommCounters* counters);
void countEnd(const Collective& call, bool completed);

std::vector<ChunkRef> makeChunks(const Cut& cut, size_t elementBytes);
std::vector<ChunkRef> makeChunks(const std::vector<BcubeBlock>& blocks, size_t elementBytes);

}  // namespace bps
