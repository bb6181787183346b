// SumService: sums the chunks that one endpoint owns. bps-server and the ranks of worker machines
// use the same class.
//
// A round of a SumService is one of its chunks. Every machine contributes to all rounds in the same
// order, so round r is the r-th chunk on the push connection of each machine. The service therefore
// needs no look-up and no reordering. When all machines have contributed to a round, the service
// sums it, in machine order and with one rounding. The service then sends the sum to all machines.
// The results lie in a ring of `depth` slots. A slot is reused when all machines have taken its
// answer; this is the only flow control.
//
// For every machine m except the local one: inbound[m].arrived() >= rounds summed >= rounds
// answered by all.
//
// The service compares the calls of a round only if all machines have contributed to a call with
// the same number and the same history (CallInfo::history). Otherwise the service waits. The
// service therefore reports exactly the first call on which the machines disagree:
//  - If two machines disagreed on an earlier call, their histories differ, and the service compares
//    no later call of theirs.
//  - Before the first disagreement all machines made the same calls and cut them in the same way.
//    They have therefore chosen the same checker for the call on which they disagree
//    (plan/cutter.h). Every machine sends that call to the checker, which has completed all earlier
//    rounds. The checker compares the call, even if the other services wait.
//
// A small sum is copied to the target of the local machine, so its chunk need not wait for the
// answers. A large sum is written directly to its target and sent from there. The chunk of a large
// sum is retired when all machines have taken the answer.
#pragma once
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/base/deadline.h"
#include "src/base/memory.h"
#include "src/base/status.h"
#include "src/service/answer_sender.h"
#include "src/service/chunk_service.h"
#include "src/service/round.h"
#include "src/trace/recorder.h"

namespace bps {

struct ServiceSpec : Summation {
  explicit ServiceSpec(Summation sums = {}) : Summation(std::move(sums)) {}

  std::optional<size_t> local;  // the machine that this service runs in
  // The order in which the machines get their answers (plan/send_order.h). Empty means 0, 1, 2...
  std::vector<size_t> order;
  size_t depth = 0;
  size_t maxChunkBytes = 0;
  bool measuresWaits = false;       // see waitTimes()
  trace::ChunkRecorder recorder{};  // at this endpoint
};

class SumService final : public ChunkService {
 public:
  static Result<std::unique_ptr<SumService>> create(ServiceSpec spec, std::vector<Lane> lanes);

  Result<bool> step() override;
  std::optional<size_t> failedMachine() const override { return failedMachine_; }
  bool canOffer() const override { return offered_ - summed_ < spec_.depth; }
  void offer(const LocalChunk& chunk) override;
  uint64_t retired() override;
  bool drained() const override;
  bool active() const override;
  uint64_t bytesSummed() const override { return bytesSummed_; }
  ServiceCounters counters() const override;
  const WaitTimes& waitTimes() const override { return waitTimes_; }
  std::optional<EndpointWait> checkWait() override;
  std::vector<CallInfo> pendingCalls() const override;
  void addPeerWaits(std::vector<PeerWait>& waits) const override;
  void forEachComm(const std::function<void(net::Comm&)>& use) override;

 private:
  explicit SumService(ServiceSpec spec)
      : spec_(std::move(spec)),
        round_(spec_.machines),
        sum_(spec_.ranks, RoundSum::Coverage::kAllRanks, spec_.reduceThreads),
        waitTimes_(spec_.machines) {}
  bool contributed(size_t machine) const { return contributions(machine) > summed_; }
  // The number of rounds to which the machine has contributed.
  uint64_t contributions(size_t machine) const { return inbound_[machine] ? inbound_[machine]->arrived() : offered_; }
  bool comparable() const;
  Result<bool> stepRound();
  void recordArrivals(size_t machine, uint64_t before) const;
  void recordAnswers(size_t machine, uint64_t before) const;
  Contribution contribution(size_t machine) const;
  void sumRound();
  void wantPushes();
  bool resultSlotFree() const;
  uint8_t* resultSlot() const { return results_.data() + summed_ % spec_.depth * spec_.maxChunkBytes; }
  bool answersFromTarget() const;
  uint64_t answeredByAll() const;
  void measureWaits() {
    if (spec_.measuresWaits) waitTimes_.update([this](size_t machine) { return contributed(machine); });
  }

  ServiceSpec spec_;
  // Declared before the connections, which use this memory until they close.
  PageBuffer results_;
  std::vector<std::unique_ptr<ContributionReceiver>> inbound_;  // one per machine; null for the local machine
  std::vector<std::unique_ptr<AnswerSender>> answers_;
  std::deque<LocalChunk> local_;  // chunks that are offered but not summed
  // For each local chunk that is summed but not retired, the number of answers after which nothing
  // reads the chunk's target any more.
  std::deque<uint64_t> retireAfterAnswer_;
  uint64_t retired_ = 0;
  std::vector<Contribution> round_;
  RoundSum sum_;
  bool wantsPushes_ = true;
  uint64_t offered_ = 0, summed_ = 0;
  std::optional<size_t> failedMachine_;
  std::optional<Deadline::Clock::time_point> waitsSince_;
  uint64_t watchedRound_ = 0;
  uint64_t bytesSummed_ = 0;
  WaitTimes waitTimes_;
};

}  // namespace bps
