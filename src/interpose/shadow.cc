#include "src/interpose/shadow.h"

#include <chrono>
#include <optional>
#include <utility>

#include "src/api/part.h"
#include "src/base/format.h"
#include "src/base/guard.h"
#include "src/base/log.h"
#include "src/interpose/agreement/agreement.h"
#include "src/interpose/agreement/device.h"
#include "src/interpose/border.h"
#include "src/nccl/patience.h"

namespace bps::interpose {
Shadow::~Shadow() { end(Ending::kAbort); }

ncclResult_t Shadow::settle() {
  const ForUs calls;
  {
    const MutexLock lock(mutex_);
    if (ending()) return ncclInvalidUsage;
    settling_ = true;
  }
  Terms terms;
  const Status outcome = guarded([&]() -> Status {
    terms = BPS_TRY(agree(*this));
    return {};
  });
  if (!outcome.ok() && !ending())
    logWarn(Subsystem::kInit, "first all-reduce of a communicator: {}", outcome.message());
  {
    const MutexLock lock(mutex_);
    settling_ = false;
    device_ = terms.device;
    served_ = terms.served;
    team_ = std::move(terms.team);
    if (served_ != nullptr && buffersOnHost() && bpsHostStreamCreate(&hostStream_) != bpsSuccess) hostStream_ = nullptr;
  }
  left_.notifyAll();
  leastBytes_.store(terms.leastBytes, std::memory_order_relaxed);
  settled_.store(true, std::memory_order_release);
  return outcome.ok() ? ncclSuccess : static_cast<ncclResult_t>(outcome.code());
}

bool Shadow::serves(const Call& call) const {
  const auto op = static_cast<int>(call.op);
  if (op < 0 || (op >= ncclNumOps && !call.userOp)) return false;
  const size_t least = leastBytes_.load(std::memory_order_relaxed);
  return least != kNever && call.bytes() > 0 && call.bytes() >= least;
}

std::shared_ptr<Team> Shadow::team() {
  const MutexLock lock(mutex_);
  return team_;
}

ncclResult_t Shadow::issue(const Call& call, bool inGroup) {
  const std::shared_ptr<Team> team = this->team();
  if (team == nullptr || !team->takes(call)) return issueWhole(call);
  const ncclResult_t issued = inGroup ? team->issueInGroup(call) : team->issue(call);
  if (issued != ncclSuccess) return issued;
  ours_.add(call.bytes());
  byTeams_.add(call.bytes());
  return issued;
}

ncclResult_t Shadow::issueWhole(Call call) {
  bpsComm_t served = nullptr;
  std::optional<CommUse> use;
  {
    const MutexLock lock(mutex_);
    if (served_ == nullptr) return ncclInvalidUsage;
    use.emplace(served = served_);
    if (buffersOnHost()) call.stream = hostStream_;
  }
  if (!call.userOp) return issueAs(call, static_cast<bpsRedOp_t>(call.op), served);
  const UserOp& user = *call.userOp;
  uint64_t scalar = user.scalar;
  void* where = user.residence == ncclScalarDevice ? user.deviceScalar : &scalar;
  bpsRedOp_t op = bpsSum;
  const bpsResult_t made = bpsRedOpCreatePreMulSum(&op, where, static_cast<bpsDataType_t>(user.type),
                                                   static_cast<bpsScalarResidence_t>(user.residence), served);
  if (made != bpsSuccess) return ncclOf(made);
  const ncclResult_t issued = issueAs(call, op, served);
  const bpsResult_t freed = bpsRedOpDestroy(op, served);
  return issued != ncclSuccess ? issued : ncclOf(freed);
}

ncclResult_t Shadow::issueAs(const Call& call, bpsRedOp_t op, bpsComm_t served) {
  const bpsResult_t issued =
      bpsAllReduce(call.send, call.recv, call.count, static_cast<bpsDataType_t>(call.type), op, served, call.stream);
  if (issued == bpsSuccess) ours_.add(call.bytes());
  else if (!ending()) logWarn(Subsystem::kColl, "{}", bpsGetLastError(served));
  return ncclOf(issued);
}

ncclResult_t Shadow::finishOnHost() {
  if (!buffersOnHost()) return ncclSuccess;
  bpsHostStream_t stream = nullptr;
  {
    const MutexLock lock(mutex_);
    stream = hostStream_;
  }
  const ncclResult_t waited = stream == nullptr ? ncclSuccess : ncclOf(bpsHostStreamSynchronize(stream));
  // Who ends the communicator waits for the stream too, and a stream tells of a failure only once.
  return waited == ncclSuccess && ending() ? ncclInvalidUsage : waited;
}

std::optional<UserOp> Shadow::findOp(ncclRedOp_t op) const {
  const auto found = ops_.find(op);
  return found == ops_.end() ? std::nullopt : std::optional<UserOp>(found->second);
}

ncclResult_t Shadow::finalize() {
  if (const ncclResult_t late = late_.state(); late != ncclSuccess) return late;
  if (!nonBlocking() || team() != nullptr) return drain();
  const MutexLock lock(mutex_);
  finalized_ = true;
  return served_ != nullptr ? ncclOf(bpsCommFinalize(served_)) : ncclSuccess;
}

ncclResult_t Shadow::drain() {
  bpsComm_t comm = nullptr;
  std::optional<CommUse> use;
  std::shared_ptr<Team> team;
  {
    const MutexLock lock(mutex_);
    if (served_ == nullptr) return ncclSuccess;
    use.emplace(comm = served_);
    team = team_;
  }
  Deadline patience = Deadline::never();
  const auto failure = [&](bool underWay) {
    if (!underWay) (void)commEndIfLeftBehind(comm, patience);
    return ending() ? ncclInvalidUsage : error();
  };
  ncclResult_t outcome = team != nullptr ? team->finalize(failure) : ncclSuccess;
  if (outcome == ncclSuccess) outcome = ncclOf(commFinalize(comm));
  if (outcome == ncclSuccess && ending()) outcome = ncclInvalidUsage;  // NCCL's part is not to be called any more
  if (outcome == ncclSuccess) finalized_ = true;
  return outcome;
}

// What has failed, or fails now, does not end by itself any more, neither on the device nor on the network.
bool Shadow::complete() {
  const auto awaited = [this] {
    ncclResult_t state = error();
    for (nccl::Patience patience; state == ncclInProgress && !ending(); patience.pause()) state = error();
    return state;
  };
  ncclResult_t outcome = awaited();
  if (outcome == ncclSuccess && !finalized_) outcome = finalize();
  return (outcome == ncclInProgress ? awaited() : outcome) == ncclSuccess;
}

void Shadow::end(Ending how) {
  ending_.store(true, std::memory_order_release);
  bpsComm_t comm = nullptr;
  bpsHostStream_t stream = nullptr;
  std::shared_ptr<Team> team;
  // The others hear of an abort before what waits for them has ended, and before the team ends.
  const auto tell = [&]() BPS_REQUIRES(mutex_) {
    if (served_ != nullptr && how == Ending::kAbort) (void)bpsCommRevoke(served_, 0);
  };
  {
    const MutexLock lock(mutex_);
    tell();
  }
  const auto patience = std::chrono::steady_clock::now() + nccl::kLeaving;
  late_.close(patience);
  {
    const MutexLock lock(mutex_);
    while (settling_ && std::chrono::steady_clock::now() < patience) left_.waitUntil(mutex_, patience);
    tell();
    comm = std::exchange(served_, nullptr);
    stream = std::exchange(hostStream_, nullptr);
    team = std::exchange(team_, nullptr);
  }
  leastBytes_.store(kNever, std::memory_order_relaxed);
  if (team != nullptr) team->end(how == Ending::kAbort);
  if (comm != nullptr) {
    const bpsResult_t ended = how == Ending::kAbort ? bpsCommAbort(comm) : bpsCommDestroy(comm);
    if (ended != bpsSuccess) logInfo(Subsystem::kInit, "end of a communicator: {}", bpsGetErrorString(ended));
  }
  if (stream != nullptr) (void)bpsHostStreamDestroy(stream);
}

ncclResult_t Shadow::error() {
  if (const ncclResult_t late = late_.state(); late != ncclSuccess) return late;
  const std::shared_ptr<Team> team = this->team();
  const ncclResult_t ofTeam = team != nullptr ? team->error() : ncclSuccess;
  const MutexLock lock(mutex_);
  bpsResult_t whole = bpsSuccess;
  if (served_ == nullptr || bpsCommGetAsyncError(served_, &whole) != bpsSuccess) return ncclSuccess;
  // Who owns other parts is joined with this rank in the communicator of all, and hears of it there.
  if (ofTeam != ncclSuccess && whole == bpsSuccess) (void)bpsCommRevoke(served_, 0);
  return ofTeam != ncclSuccess ? ofTeam : ncclOf(whole);
}

std::string Shadow::lastError() {
  const std::shared_ptr<Team> team = this->team();
  if (team != nullptr && team->error() != ncclSuccess) return team->lastError();
  const MutexLock lock(mutex_);
  return served_ != nullptr ? bpsGetLastError(served_) : std::string();
}

void Shadow::Path::add(size_t more) {
  calls.fetch_add(1, std::memory_order_relaxed);
  bytes.fetch_add(more, std::memory_order_relaxed);
}

void Shadow::countPassed(const Call& call) { theirs_.add(call.bytes()); }

std::string Shadow::summary() const {
  return fmt::format(
      "rank {} of {}: {} all-reduces ({} bytes) by bps, of which {} ({} bytes) by NCCL inside machines; {} ({} bytes) "
      "by "
      "NCCL",
      rank_, nRanks_, ours_.calls.load(), ours_.bytes.load(), byTeams_.calls.load(), byTeams_.bytes.load(),
      theirs_.calls.load(), theirs_.bytes.load());
}

}  // namespace bps::interpose
