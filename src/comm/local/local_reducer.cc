#include "src/comm/local/local_reducer.h"

#include <algorithm>
#include <cstring>

#include "src/base/format.h"

namespace bps {
namespace {

std::vector<LinkByteCounters::Counter*> counterRows(const LocalRing& ring) {
  std::vector<LinkByteCounters::Counter*> rows;
  for (uint32_t rank = 0; rank < ring.shape().ranks; ++rank) rows.push_back(ring.counters(rank));
  return rows;
}

}  // namespace

LocalReducer::LocalReducer(LocalReducerSpec spec, std::unique_ptr<const MachinePlan> plan, LocalRing ring,
                           std::vector<Doorbell> bells)
    : spec_(std::move(spec)),
      localRank_(spec_.roster->ranks[spec_.rank].localRank),
      machine_(&spec_.roster->machines[spec_.roster->ranks[spec_.rank].machine]),
      ownBuffers_(spec_.own != nullptr ? *spec_.own : userBuffers_),
      ring_(std::move(ring)),
      doorbells_(std::move(bells)),
      traffic_(std::move(plan), counterRows(ring_), localRank_),
      program_(traffic_.plan().program),
      stepCache_(program_, traffic_.meter(), localRank_),
      cursors_(program_.stages()),
      ownDone_(program_.stages()),
      partSum_(spec_.roster->ranks.size(), RoundSum::Coverage::kSomeRanks, spec_.reduceThreads),
      machineSum_(spec_.roster->ranks.size(),
                  networked() ? RoundSum::Coverage::kSomeRanks : RoundSum::Coverage::kAllRanks, spec_.reduceThreads) {}

void LocalReducer::setRails(const Rails& rails) {
  rails_ = rails;
  drivers_.clear();
  for (const size_t driver : rails_.drivers()) drivers_.push_back(static_cast<uint32_t>(driver));
}

void LocalReducer::ChunkCursor::next() {
  if (++index < calls.front()->chunks.size()) return;
  calls.pop_front();
  index = 0;
}

void LocalReducer::submit(Collective& call) {
  call.firstChunk = submitted_;
  submitted_ += call.chunks.size();
  arrivalCursor_.calls.push_back(&call);
  for (ChunkCursor& cursor : cursors_) cursor.calls.push_back(&call);
  if (networked() && rails_.carries(localRank_, call.onAllRails))
    for (uint64_t chunk = call.firstChunk; chunk < submitted_; ++chunk) {
      awaitedSums_.push_back(chunk);
      unpublished_.emplace_back(chunk, false);
    }
  if (networked()) ring_.rankState(localRank_).awaited.store(awaitedSums_.empty() ? 0 : awaitedSums_.front() + 1);
  admitReadyChunks();
  if (networked()) publish();
}

// Announces the contributions that are ready to other ranks. A contribution that is still being copied out of a device
// is not announced.
bool LocalReducer::admitReadyChunks() {
  const uint64_t before = arrived_;
  for (; arrived_ < submitted_ && ownBuffers_.ready(*arrivalCursor_.calls.front(), arrivalCursor_.index); ++arrived_)
    arrivalCursor_.next();
  // Release is enough: this store lets only this rank continue, and this rank checks again after it has set asleep.
  if (arrived_ > before) ring_.rankState(localRank_).submitted.store(arrived_, std::memory_order_release);
  return arrived_ > before;
}

bool LocalReducer::canRun(uint32_t rank, size_t stage) const {
  const uint64_t chunk = done(rank, stage);
  if (stage == 0)
    return chunk < (rank == localRank_ ? arrived_ : ring_.rankState(rank).submitted.load()) && slotFree(chunk);
  if (chunk >= done(rank, stage - 1)) return false;
  if (stage == lastStage() && networked()) return published(chunk);
  if (program_.waitsForAll(stage)) return allRanksDone(stage - 1, chunk);
  return chunk < done(static_cast<uint32_t>(program_.predecessor(rank)), stage - 1);
}

// A slot is reused only after this rank has done the last stage of its chunk. A rank that claims to be further ahead
// has damaged counters.
uint64_t LocalReducer::doneByOthers(size_t stage) const {
  const LocalRing::DoneRange others = ring_.doneRange(stage, localRank_);
  if (others.most <= ownDone_[lastStage()] + ring_.shape().slots) return others.least;
  inconsistentRank_ = others.furthest;
  return 0;
}

bool LocalReducer::allRanksDone(size_t stage, uint64_t chunk) const {
  return chunk < ownDone_[stage] && chunk < doneByOthers(stage);
}

bool LocalReducer::slotFree(uint64_t chunk) const {
  if (chunk >= freeBelow_)
    freeBelow_ = std::min(ownDone_[lastStage()], doneByOthers(lastStage())) + ring_.shape().slots;
  return chunk < freeBelow_;
}

bool LocalReducer::sumIsReady(uint32_t rank) const {
  uint64_t awaited = ring_.rankState(rank).awaited.load();
  if (rank == localRank_) awaited = awaitedSums_.empty() ? 0 : awaitedSums_.front() + 1;
  return awaited > 0 && allRanksDone(lastStage() - 1, awaited - 1);
}

// A driver to which the chunk has not been submitted has not published it either.
bool LocalReducer::published(uint64_t chunk) const {
  return std::all_of(drivers_.begin(), drivers_.end(),
                     [&](uint32_t driver) { return chunk < ring_.rankState(driver).published.load(); });
}

bool LocalReducer::canRunAnyStage(uint32_t rank) const {
  for (size_t stage = 0; stage <= lastStage(); ++stage)
    if (canRun(rank, stage)) return true;
  return sumIsReady(rank);
}

Result<bool> LocalReducer::step() {
  bool moved = admitReadyChunks();
  // Later stages first: they free slots and other ranks wait for them.
  for (size_t stage = cursors_.size(); stage-- > 0;) {
    for (bool more = canRun(localRank_, stage); more; more = stage > 0 && canRun(localRank_, stage)) {
      BPS_TRY(runStage(stage));
      moved = true;
    }
  }
  if (moved) skipEmptyStages();
  moved = takeReadySums() || moved;
  BPS_TRY(checkPeerCounters());
  if (!moved) BPS_TRY(failIfRankLeft());
  return moved;
}

Status LocalReducer::runStage(size_t stage) {
  ChunkCursor& cursor = cursors_[stage];
  Collective& call = *cursor.calls.front();
  const ChunkRef& chunk = call.chunks[cursor.index];
  const uint64_t number = ownDone_[stage];
  if (stage == 0) ring_.chunkInfo(number, localRank_) = {call.call, chunk.bytes};
  const bool redundant = program_.isReducedRedundantly(chunk.bytes);
  if (stage == (redundant ? lastStage() : 1)) BPS_TRY(checkCallsUpTo(number));
  const StepCache::Entry& step = stepCache_.at(stage, chunk.bytes, elementBytes(static_cast<DataType>(call.call.type)));
  const ChunkView own = ownBuffers_.view(call, cursor.index);
  for (const Piece& piece : step.pieces) run(piece, own, number);
  traffic_.meter().increment(step.increments);
  // Other ranks wait for a later counter, which skipEmptyStages() stores; it also wakes them.
  const bool passesOn = redundant && stage == 0;
  ownDone_[stage] = number + 1;
  ring_.done(localRank_, stage)
      .store(ownDone_[stage], passesOn ? std::memory_order_release : std::memory_order_seq_cst);
  if (stage == lastStage()) ownBuffers_.finished(call, cursor.index);
  cursor.next();
  if (!passesOn) wakeOthers();
  return {};
}

// A redundantly reduced chunk has nothing to do between its first and its last stage. step() skips those stages before
// it returns, so that other ranks never wait for them while this rank sleeps.
void LocalReducer::skipEmptyStages() {
  bool passed = false;
  for (size_t stage = 1; stage < lastStage(); ++stage) {
    for (; ownDone_[stage] < ownDone_[stage - 1] && program_.isReducedRedundantly(cursors_[stage].bytes());
         passed = true) {
      ring_.done(localRank_, stage).store(++ownDone_[stage]);
      cursors_[stage].next();
    }
  }
  if (passed) wakeOthers();
}

// Compares the chunks in order, so that the error names the first call on which ranks disagree. A redundantly reduced
// chunk would otherwise be compared later than a large one after it. A rank that has begun a chunk has begun all
// earlier ones.
Status LocalReducer::checkCallsUpTo(uint64_t chunk) {
  for (; checked_ <= chunk; ++checked_) BPS_TRY(checkCalls(checked_));
  return {};
}

// Fails if the ranks of the machine do not agree on the call of this chunk. All of them have begun it.
Status LocalReducer::checkCalls(uint64_t chunk) {
  contributions_.clear();
  // Prefetch the data of a small chunk from other CPUs' caches while its ChunkInfo is read.
  for (uint32_t rank = 0; rank < ring_.shape().ranks; ++rank) __builtin_prefetch(ring_.area(chunk, rank));
  for (uint32_t rank = 0; rank < ring_.shape().ranks; ++rank) {
    const ChunkInfo& chunkInfo = ring_.chunkInfo(chunk, rank);
    contributions_.push_back({chunkInfo.call, nullptr, chunkInfo.bytes});
  }
  return checkRound(contributions_, [this](size_t local) { return spec_.roster->rankName(machine_->ranks[local]); });
}

const uint8_t* LocalReducer::locate(const Source& source, const uint8_t* own, uint64_t number) const {
  if (source.area == Source::kOwn) return own;
  return source.area == Source::kSumArea ? ring_.sum(number) : ring_.area(number, source.area);
}

void LocalReducer::run(const Piece& piece, const ChunkView& own, uint64_t number) {
  const uint64_t at = piece.part.begin, bytes = piece.part.size();
  uint8_t* target = (piece.target == Piece::Target::kResult    ? own.target
                     : piece.target == Piece::Target::kSumArea ? ring_.sum(number)
                                                               : ring_.area(number, localRank_)) +
                    at;
  if (piece.sources.size() == 1 && !piece.completes) {
    std::memcpy(target, locate(piece.sources[0], own.source, number) + at, bytes);
    return;
  }
  contributions_.clear();
  for (const Source& source : piece.sources) {
    CallInfo info = own.call;
    const bool summed = source.contributor == Source::kPartialSum;
    if (summed) info.hasScalar = false;  // the scalars have been applied
    else info.scalar = ring_.chunkInfo(number, static_cast<uint32_t>(source.contributor)).call.scalar;
    contributions_.push_back({info, locate(source, own.source, number) + at, bytes, false, summed});
  }
  (piece.completes ? machineSum_ : partSum_).run(contributions_, target);
}

ChunkView LocalReducer::view(const Collective& call, size_t index) const {
  const size_t unit = elementBytes(static_cast<DataType>(call.call.type));
  const ByteRange part = rails_.rangeOf(localRank_, call.chunks[index].bytes, unit, call.onAllRails);
  uint8_t* sum = ring_.sum(call.firstChunk + index) + part.begin;
  CallInfo info = call.call;
  info.hasScalar = false;  // already applied to each rank's contribution
  return {sum, sum, part.size(), info, true};
}

bool LocalReducer::takeReadySums() {
  bool moved = false;
  for (; sumIsReady(localRank_); moved = true) {
    readyBelow_ = awaitedSums_.front() + 1;
    awaitedSums_.pop_front();
    ring_.rankState(localRank_).awaited.store(awaitedSums_.empty() ? 0 : awaitedSums_.front() + 1);
  }
  return moved;
}

// Sums arrive in the order of each lane. They are published in the order of the ring.
void LocalReducer::finished(Collective& call, size_t index) {
  const std::pair<uint64_t, bool> chunk(call.firstChunk + index, false);
  std::lower_bound(unpublished_.begin(), unpublished_.end(), chunk)->second = true;
  publish();
}

void LocalReducer::publish() {
  while (!unpublished_.empty() && unpublished_.front().second) unpublished_.pop_front();
  const uint64_t upTo = unpublished_.empty() ? submitted_ : unpublished_.front().first;
  if (published_ == upTo) return;
  published_ = upTo;
  ring_.rankState(localRank_).published.store(upTo);
  wakeOthers();
}

Status LocalReducer::checkPeerCounters() const {
  if (!inconsistentRank_) return {};
  return failure(Code::kRemote,
                 "memory shared by local ranks is damaged: {} reports finished chunks that it cannot have begun",
                 spec_.roster->rankName(machine_->ranks[*inconsistentRank_]));
}

// Fails if a rank has left that did not contribute to all calls in flight here.
Status LocalReducer::failIfRankLeft() const {
  const ChunkCursor& last = cursors_.back();
  if (last.calls.empty()) return {};
  for (uint32_t rank = 0; rank < ring_.shape().ranks; ++rank)
    if (ring_.rankState(rank).left.load() != 0 && ring_.rankState(rank).submitted.load() < submitted_)
      return failure(Code::kRemote, "{} has left the communicator, {} cannot complete",
                     spec_.roster->rankName(machine_->ranks[rank]), describe(last.calls.back()->call));
  return {};
}

void LocalReducer::leave() {
  ring_.rankState(localRank_).left.store(1);
  for (uint32_t rank = 0; rank < ring_.shape().ranks; ++rank)
    if (rank != localRank_) doorbells_[rank].ring();
}

bool LocalReducer::allRanksFinished() const {
  return ring_.doneByAll(lastStage()) == ring_.done(localRank_, lastStage()).load();
}

void LocalReducer::wakeOthers() const {
  for (uint32_t rank = 0; rank < ring_.shape().ranks; ++rank)
    if (rank != localRank_ && ring_.rankState(rank).asleep.load() != 0 && canRunAnyStage(rank)) doorbells_[rank].ring();
}

bool LocalReducer::prepareToSleep() {
  ring_.rankState(localRank_).asleep.store(1);
  asleep_ = true;
  return !canRunAnyStage(localRank_);
}

void LocalReducer::endSleep() {
  if (std::exchange(asleep_, false)) ring_.rankState(localRank_).asleep.store(0);
}

}  // namespace bps
