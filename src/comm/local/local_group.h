// LocalGroup: how the ranks of one machine combine their buffers. Every rank copies its contribution to a chunk into a
// shared slot; the leader (the lowest rank) sums them in rank order with one rounding and, where there is a network,
// puts the machine's sum on its way as the machine's contribution; every rank copies the final sum out.
// Belongs to who has the turn on its rank (call_progress.h).
#pragma once
#include <chrono>
#include <deque>
#include <memory>
#include <vector>

#include "src/base/deadline.h"
#include "src/comm/first_error.h"
#include "src/comm/lanes/chunk_buffers.h"
#include "src/comm/local/local_ring.h"
#include "src/service/round.h"
#include "src/wire/roster.h"

namespace bps {

struct LocalGroupSpec {
  const Roster* roster = nullptr;
  uint32_t rank = 0;
  LocalRingShape shape;
  int reduceThreads = 1;
  std::shared_ptr<Doorbell> bell;       // wakes this rank's channel
  const FirstError* failure = nullptr;  // of the communicator: ends a meeting
};

class LocalGroup final : public ChunkBuffers {
 public:
  // Meets the other ranks of the machine; ends at the deadline, naming who did not come.
  static Result<std::unique_ptr<LocalGroup>> meet(LocalGroupSpec spec, Deadline deadline);
  LocalGroup(LocalGroupSpec spec, LocalRing ring, std::vector<Doorbell> bells);

  // The call's chunks, in call order. The call stays until its remaining chunks are 0.
  void submit(Collective& call);
  // Copies in, sums, copies out; true when anything moved.
  Result<bool> step();

  ChunkBuffers& buffers() { return *this; }
  bool ready(const Collective& call, size_t index) const override { return call.firstChunk + index < summed_; }
  ChunkView view(const Collective& call, size_t index) const override;
  void finished(Collective& call, size_t index) override;

  // This rank says goodbye: it will not contribute again. Any thread, once no call is in flight.
  void leave();

  // Around a sleep of the channel; false: something changed, do not sleep.
  bool fallAsleep();
  void awake();

 private:
  struct Walk {  // the chunks of submitted calls, one after the other
    std::deque<Collective*> calls;
    size_t index = 0;
    bool atEnd() const { return calls.empty(); }
    void next();
  };
  bool leads() const { return localRank_ == 0; }
  bool canCopyIn() const { return !in_.atEnd() && ring_.slotFree(copiedIn_); }
  bool canSum() const;
  bool canCopyOut() const;
  Status checkLeft() const;
  void copyIn();
  Status sum();
  void copyOut();
  void publish(uint64_t upTo);
  void wakeAll() const;

  LocalGroupSpec spec_;
  uint32_t localRank_;
  const Machine* machine_;
  LocalRing ring_;
  std::vector<Doorbell> bells_;  // of every local rank
  Walk in_, out_;
  uint64_t submitted_ = 0, copiedIn_ = 0, summed_ = 0, copiedOut_ = 0;
  std::vector<bool> finished_;  // per slot: the network has brought its sum
  std::vector<Contribution> round_;
  RoundSum roundSum_;
};

}  // namespace bps
