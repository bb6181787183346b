// SumService: sums the chunks that one endpoint owns. bps-server and the ranks of worker machines use the same class.
//
// Every machine contributes to every round (chunk) in the same order, so round r of this owner is the r-th chunk on
// each of its push lanes. No look-up or reordering is needed. A round is summed once all machines have contributed, in
// machine order and with one rounding, and the sum is sent to all machines. The results lie in a ring of `depth` slots.
// A slot is reused when all machines have taken its answer; this is the only flow control. An exchange-path round is
// summed for the local machine only and not sent.
//
//   received by machine m: inbound[m].arrived() >= summed >= answered by all >= ...
//
// The service compares the calls of a round only if all machines have contributed to a call with the same number and
// the same history (CallInfo::history); otherwise it waits. This way it reports exactly the first call on which the
// machines disagree:
//   - Two machines that disagreed on an earlier call have different histories, so no later call is compared.
//   - Up to the first such call all machines made the same calls. So they have cut them in the same way and have chosen
//     the same checker for this call (plan/cutter.h). Every machine sends the call to its checker, which has completed
//     all earlier rounds. So the checker compares the call, even if the other services wait.
//
// The local machine (the one that the service runs in), if any, offers its contribution by pointer. A small sum is
// copied back, so that its chunk need not wait for the answers. A large sum is written to its target at once, sent from
// there, and retired when all machines have taken the answer.
//
// Belongs to one thread; never blocks. A DataPlane or a ServedJob owns it.
#pragma once
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/base/deadline.h"
#include "src/base/memory.h"
#include "src/base/status.h"
#include "src/service/answer_sender.h"
#include "src/service/contribution_receiver.h"
#include "src/service/round.h"

namespace bps {

struct ServiceSpec {
  size_t machines = 0;
  std::optional<size_t> local;  // the machine this service runs in
  std::vector<size_t> order;    // the order in which the machines are answered (plan/send_order.h); empty: 0, 1, 2...
  size_t depth = 0;
  size_t maxChunkBytes = 0;
  uint64_t ranks = 0;        // on all machines
  std::vector<bool> summed;  // per machine: it contributes the sum of several ranks
  bool checksum = false;     // every chunk carries a checksum, see DataHeader
  int reduceThreads = 1;
  std::chrono::milliseconds waitTimeout{10000};       // after this time without progress checkWait() reports a round
  std::function<std::string(size_t machine)> nameOf;  // for messages
};

// The call that waits, and the endpoint it waits for.
struct EndpointWait {
  uint64_t call = 0;
  size_t endpoint = 0;
};

// A chunk of the local machine. Both pointers must stay valid until retired() is greater than its number.
struct LocalChunk {
  CallInfo call;
  const void* source = nullptr;
  void* target = nullptr;
  size_t bytes = 0;
  bool usesExchangePath = false;  // each machine sums it for itself
};

class SumService {
 public:
  // links[m] of every machine but the local one holds its push and its answer lane.
  struct Lane {
    std::unique_ptr<net::Comm> push, answer;
  };
  static Result<std::unique_ptr<SumService>> create(ServiceSpec spec, std::vector<Lane> lanes);

  // Makes progress; true if anything moved. After a failure failedMachine() is the machine whose lane broke, if any. A
  // machine that only closed its push lane is reported once, and step() may be called again.
  Result<bool> step();
  std::optional<size_t> failedMachine() const { return failedMachine_; }

  bool canOffer() const { return offered_ - summed_ < spec_.depth; }
  void offer(const LocalChunk& chunk);
  // Announces the next local chunk, which is offered once its contribution has been sent to the other machines. Its
  // call is compared at once, because machines that disagree may not receive the contribution.
  void expect(const LocalChunk& chunk);
  // The number of local chunks whose sum is in their target, and whose target nothing reads any more.
  uint64_t retired();
  // True if every answer has been passed to the transport.
  bool drained() const;
  // True if a round has begun or answers are being sent.
  bool active() const;
  uint64_t bytesSummed() const { return bytesSummed_; }

  // The endpoint that the oldest round waits for, once it has waited for waitTimeout. Logs it once per call. Call
  // regularly.
  std::optional<EndpointWait> checkWait();
  void forEachComm(const std::function<void(net::Comm&)>& use);

 private:
  explicit SumService(ServiceSpec spec)
      : spec_(std::move(spec)),
        round_(spec_.machines),
        sum_(spec_.ranks, RoundSum::Coverage::kAllRanks, spec_.reduceThreads) {}
  bool contributed(size_t machine) const;
  bool hasCall(size_t machine) const;
  bool comparable() const;
  Result<bool> stepRound();
  Contribution contribution(size_t machine) const;
  Status sumRound();
  void logWaiting(const CallInfo& call) const;
  void wantPushes();
  bool nextUsesExchangePath() const;
  bool resultSlotFree() const;
  uint8_t* resultSlot() const { return results_.data() + answered_ % spec_.depth * spec_.maxChunkBytes; }
  bool answersFromTarget() const;
  uint64_t answeredByAll() const;
  void sumForAll();

  ServiceSpec spec_;
  // declared before the connections, which use it until they close
  PageBuffer results_;
  std::vector<std::unique_ptr<ContributionReceiver>> inbound_;  // per machine; null for the local one
  std::vector<std::unique_ptr<AnswerSender>> answers_;
  std::deque<LocalChunk> local_;  // offered but not summed
  std::deque<uint64_t>
      // per local chunk that is summed but not retired: the number of answers until nothing reads its target
      retireAfterAnswer_;
  uint64_t retired_ = 0;
  std::vector<Contribution> round_;
  RoundSum sum_;
  bool wantsPushes_ = true;
  std::optional<LocalChunk> expected_;  // announced but not offered
  uint64_t offered_ = 0, summed_ = 0;
  uint64_t answered_ = 0;  // rounds summed for all machines
  std::optional<size_t> failedMachine_;
  Deadline waitDeadline_ = Deadline::never();
  uint64_t watchedRound_ = 0;
  std::optional<uint64_t> lastLoggedCall_;  // the number of the call
  uint64_t bytesSummed_ = 0;
};

}  // namespace bps
