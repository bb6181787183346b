// SumService: sums the chunks that one endpoint owns. The same engine runs in bps-server and in the ranks of worker
// machines.
//
// Every machine contributes to every round (chunk) in the same order, so round r of this owner is the r-th chunk on
// each of its push lanes: no look-up, no reordering. A round is summed once all machines have contributed, in machine
// order with one rounding, and answered to all. Result memory is a ring of `depth` slots: a slot is used again when
// all machines have taken its answer, which is all the flow control there is. A direct round is summed for the local
// machine alone and answered to nobody.
//
//   received by machine m: inbound[m].arrived() >= summed >= answered by all >= ...
//
// The service compares the calls of a round only if all machines have brought the same number of call with the same
// history (CallInfo::history); else it waits. So it reports the first call on which the machines disagree, and no other
// one:
//   - Two machines that disagreed on an earlier call have different histories, so nothing behind it is compared.
//   - Up to the first such call all machines made the same calls, so they have cut them alike and have chosen the same
//     checker for it (plan/cutter.h). Everyone sends the call to its checker, which is done with all rounds before it.
//     So the checker compares that call, whatever the other services wait for.
//
// The contribution of the machine that the service runs in (if any) is offered by pointer. Its sum is copied back where
// it is small, so that it need not wait for the answers; a larger one is written to its place at once, answered from
// there, and retired when all have taken their answer.
// Belongs to one thread; never blocks.
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
  std::vector<size_t> order;    // of the machines, in which they are answered (plan/send_order.h); empty: 0, 1, 2...
  size_t depth = 0;
  size_t maxChunkBytes = 0;
  uint64_t ranks = 0;        // of all machines
  std::vector<bool> summed;  // per machine: it brings the sum of several ranks
  bool checksum = false;     // of every chunk's bytes, see DataHeader
  int reduceThreads = 1;
  std::chrono::milliseconds waitTimeout{10000};       // a round waits this long before watch() says for whom
  std::function<std::string(size_t machine)> nameOf;  // for messages
};

// The call that waits, and for which endpoint.
struct EndpointWait {
  uint64_t call = 0;
  size_t endpoint = 0;
};

// A chunk of the machine that the service runs in. Both pointers stay valid until retired() has passed it.
struct LocalChunk {
  CallInfo call;
  const void* source = nullptr;
  void* target = nullptr;
  size_t bytes = 0;
  bool usesExchangePath = false;  // the other machines sum it for themselves
};

class SumService {
 public:
  // links[m] of every machine but the local one carries pushIn and answerOut.
  struct Lane {
    std::unique_ptr<net::Comm> push, answer;
  };
  static Result<std::unique_ptr<SumService>> create(ServiceSpec spec, std::vector<Lane> lanes);

  // Moves what can move; true when anything did. After a failure culprit() is the machine whose lane broke, if one did;
  // a machine that only ended its push lane is reported once, and step() may go on.
  Result<bool> step();
  std::optional<size_t> failedMachine() const { return failedMachine_; }

  bool canOffer() const { return offered_ - summed_ < spec_.depth; }
  void offer(const LocalChunk& chunk);
  // The next local chunk is there, and will be offered when its contribution has been sent to the others. Its call is
  // compared already: machines that disagree may not take it.
  void expect(const LocalChunk& chunk);
  // Local chunks whose sum is in their target, which nothing reads any more.
  uint64_t retired();
  // Every answer has been handed to the transport.
  bool drained() const;
  // A round has begun, or answers are on their way.
  bool active() const;
  uint64_t bytesSummed() const { return bytesSummed_; }

  // For whom the oldest round waits, once that has lasted for the patience; logged once for each call. Call now and
  // then.
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
  bool nextIsDirect() const;
  bool resultSlotFree() const;
  uint8_t* resultSlot() const { return results_.data() + answered_ % spec_.depth * spec_.maxChunkBytes; }
  bool answersFromTarget() const;
  uint64_t answeredByAll() const;
  void sumForAll();

  ServiceSpec spec_;
  PageBuffer results_;                                          // before the connections, which touch it to their end
  std::vector<std::unique_ptr<ContributionReceiver>> inbound_;  // per machine; null for the local one
  std::vector<std::unique_ptr<AnswerSender>> answers_;
  std::deque<LocalChunk> local_;  // offered and not summed
  std::deque<uint64_t>
      retireAfterAnswer_;  // of each local chunk summed and not retired: answers until nothing reads its target
  uint64_t retired_ = 0;
  std::vector<Contribution> round_;
  RoundSum sum_;
  bool wantsPushes_ = true;
  std::optional<LocalChunk> expected_;  // and not offered
  uint64_t offered_ = 0, summed_ = 0;
  uint64_t answered_ = 0;  // rounds summed for all
  std::optional<size_t> failedMachine_;
  Deadline waitDeadline_ = Deadline::never();
  uint64_t watchedRound_ = 0;
  std::optional<uint64_t> lastLoggedCall_;  // the call
  uint64_t bytesSummed_ = 0;
};

}  // namespace bps
