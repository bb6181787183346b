#include "src/comm/local/local_group.h"

#include <algorithm>
#include <cstring>

#include "src/base/format.h"

namespace bps {
namespace {

std::vector<LinkMeter::Number*> rowsOf(const LocalRing& ring) {
  std::vector<LinkMeter::Number*> rows;
  for (uint32_t rank = 0; rank < ring.shape().ranks; ++rank) rows.push_back(ring.counters(rank));
  return rows;
}

}  // namespace

LocalGroup::LocalGroup(LocalGroupSpec spec, std::unique_ptr<const MachinePlan> plan, LocalRing ring,
                       std::vector<Doorbell> bells)
    : spec_(std::move(spec)),
      localRank_(spec_.roster->ranks[spec_.rank].localRank),
      machine_(&spec_.roster->machines[spec_.roster->ranks[spec_.rank].machine]),
      own_(spec_.own != nullptr ? *spec_.own : userBuffers_),
      ring_(std::move(ring)),
      bells_(std::move(bells)),
      traffic_(std::move(plan), rowsOf(ring_), localRank_),
      program_(traffic_.plan().program),
      book_(program_, traffic_.meter(), localRank_),
      walks_(program_.stages()),
      did_(program_.stages()),
      partSum_(spec_.roster->ranks.size(), RoundSum::Of::kSomeRanks, spec_.reduceThreads),
      machineSum_(spec_.roster->ranks.size(), networked() ? RoundSum::Of::kSomeRanks : RoundSum::Of::kAllRanks,
                  spec_.reduceThreads) {}

void LocalGroup::setRails(const Rails& rails) {
  rails_ = rails;
  drivers_.clear();
  for (const size_t driver : rails_.drivers()) drivers_.push_back(static_cast<uint32_t>(driver));
}

void LocalGroup::Walk::next() {
  if (++index < calls.front()->chunks.size()) return;
  calls.pop_front();
  index = 0;
}

void LocalGroup::submit(Collective& call) {
  call.firstChunk = submitted_;
  submitted_ += call.chunks.size();
  arrivals_.calls.push_back(&call);
  for (Walk& walk : walks_) walk.calls.push_back(&call);
  if (networked() && rails_.carries(localRank_, call.spread))
    for (uint64_t chunk = call.firstChunk; chunk < submitted_; ++chunk) {
      unseen_.push_back(chunk);
      unpublished_.emplace_back(chunk, false);
    }
  if (networked()) ring_.member(localRank_).awaited.store(unseen_.empty() ? 0 : unseen_.front() + 1);
  takeArrivals();
  if (networked()) publish();
}

// Others may count on what this rank has at hand, and on nothing that is still on its way out of a device.
bool LocalGroup::takeArrivals() {
  const uint64_t before = arrived_;
  for (; arrived_ < submitted_ && own_.ready(*arrivals_.calls.front(), arrivals_.index); ++arrived_) arrivals_.next();
  // Lets nobody but this rank go on, who looks at it again after it has set asleep.
  if (arrived_ > before) ring_.member(localRank_).submitted.store(arrived_, std::memory_order_release);
  return arrived_ > before;
}

bool LocalGroup::may(uint32_t rank, size_t stage) const {
  const uint64_t chunk = done(rank, stage);
  if (stage == 0)
    return chunk < (rank == localRank_ ? arrived_ : ring_.member(rank).submitted.load()) && slotFree(chunk);
  if (chunk >= done(rank, stage - 1)) return false;
  if (stage == lastStage() && networked()) return published(chunk);
  if (program_.waitsForAll(stage)) return allDid(stage - 1, chunk);
  return chunk < done(static_cast<uint32_t>(program_.predecessor(rank)), stage - 1);
}

// A slot is used again when this rank, too, has done the last stage of its chunk: no rank can be further than that.
uint64_t LocalGroup::doneByOthers(size_t stage) const {
  const LocalRing::Extent others = ring_.extent(stage, localRank_);
  if (others.most <= did_[lastStage()] + ring_.shape().slots) return others.least;
  impossible_ = others.furthest;
  return 0;
}

bool LocalGroup::allDid(size_t stage, uint64_t chunk) const {
  return chunk < did_[stage] && chunk < doneByOthers(stage);
}

bool LocalGroup::slotFree(uint64_t chunk) const {
  if (chunk >= freeBelow_) freeBelow_ = std::min(did_[lastStage()], doneByOthers(lastStage())) + ring_.shape().slots;
  return chunk < freeBelow_;
}

bool LocalGroup::maySee(uint32_t rank) const {
  uint64_t awaited = ring_.member(rank).awaited.load();
  if (rank == localRank_) awaited = unseen_.empty() ? 0 : unseen_.front() + 1;
  return awaited > 0 && allDid(lastStage() - 1, awaited - 1);
}

// A driver that has not been asked for the chunk yet has not published it either.
bool LocalGroup::published(uint64_t chunk) const {
  return std::all_of(drivers_.begin(), drivers_.end(),
                     [&](uint32_t driver) { return chunk < ring_.member(driver).published.load(); });
}

bool LocalGroup::mayAnything(uint32_t rank) const {
  for (size_t stage = 0; stage <= lastStage(); ++stage)
    if (may(rank, stage)) return true;
  return maySee(rank);
}

Result<bool> LocalGroup::step() {
  bool moved = takeArrivals();
  // Later stages first: they free slots, and others wait for them.
  for (size_t stage = walks_.size(); stage-- > 0;) {
    for (bool more = may(localRank_, stage); more; more = stage > 0 && may(localRank_, stage)) {
      BPS_TRY(carryOut(stage));
      moved = true;
    }
  }
  if (moved) passStages();
  moved = seeSums() || moved;
  BPS_TRY(checkNumbers());
  if (!moved) BPS_TRY(checkLeft());
  return moved;
}

Status LocalGroup::carryOut(size_t stage) {
  Walk& walk = walks_[stage];
  Collective& call = *walk.calls.front();
  const ChunkRef& chunk = call.chunks[walk.index];
  const uint64_t number = did_[stage];
  if (stage == 0) ring_.note(number, localRank_) = {call.call, chunk.bytes};
  const bool byEach = program_.addedUpByEach(chunk.bytes);
  if (stage == (byEach ? lastStage() : 1)) BPS_TRY(checkCallsTo(number));
  const StepBook::Entry& step = book_.at(stage, chunk.bytes, elementBytes(static_cast<DataType>(call.call.type)));
  const ChunkView own = own_.view(call, walk.index);
  for (const Piece& piece : step.pieces) run(piece, own, number);
  traffic_.meter().charge(step.charges);
  const bool passesOn = byEach && stage == 0;  // passStages() stores the number that others wait for, and wakes them
  did_[stage] = number + 1;
  ring_.done(localRank_, stage).store(did_[stage], passesOn ? std::memory_order_release : std::memory_order_seq_cst);
  if (stage == lastStage()) own_.finished(call, walk.index);
  walk.next();
  if (!passesOn) wakeOthers();
  return {};
}

// Between its first stage and the last a chunk that each rank adds up for itself waits for nobody: only here, so that
// others never see it in between while this rank sleeps.
void LocalGroup::passStages() {
  bool passed = false;
  for (size_t stage = 1; stage < lastStage(); ++stage) {
    for (; did_[stage] < did_[stage - 1] && program_.addedUpByEach(walks_[stage].bytes()); passed = true) {
      ring_.done(localRank_, stage).store(++did_[stage]);
      walks_[stage].next();
    }
  }
  if (passed) wakeOthers();
}

// In order, so that the first call on which ranks disagree is told: a chunk that each rank adds up for itself may be
// looked at later than the large one behind it. Who has begun with a chunk has begun with all before it.
Status LocalGroup::checkCallsTo(uint64_t chunk) {
  for (; checked_ <= chunk; ++checked_) BPS_TRY(checkCalls(checked_));
  return {};
}

// All ranks of the machine have begun with this chunk: do they mean the same?
Status LocalGroup::checkCalls(uint64_t chunk) {
  round_.clear();
  // The bytes of a small chunk come from other caches while what is said of it does.
  for (uint32_t rank = 0; rank < ring_.shape().ranks; ++rank) __builtin_prefetch(ring_.area(chunk, rank));
  for (uint32_t rank = 0; rank < ring_.shape().ranks; ++rank) {
    const ChunkNote& note = ring_.note(chunk, rank);
    round_.push_back({note.call, nullptr, note.bytes});
  }
  return checkRound(round_, [this](size_t local) { return spec_.roster->rankName(machine_->ranks[local]); });
}

const uint8_t* LocalGroup::locate(const Source& source, const uint8_t* own, uint64_t number) const {
  if (source.area == Source::kOwn) return own;
  return source.area == Source::kSumArea ? ring_.sum(number) : ring_.area(number, source.area);
}

void LocalGroup::run(const Piece& piece, const ChunkView& own, uint64_t number) {
  const uint64_t at = piece.part.begin, bytes = piece.part.size();
  uint8_t* target = (piece.target == Piece::Target::kResult    ? own.target
                     : piece.target == Piece::Target::kSumArea ? ring_.sum(number)
                                                               : ring_.area(number, localRank_)) +
                    at;
  if (piece.sources.size() == 1 && !piece.completes) {
    std::memcpy(target, locate(piece.sources[0], own.source, number) + at, bytes);
    return;
  }
  round_.clear();
  for (const Source& source : piece.sources) {
    CallInfo info = own.call;
    const bool summed = source.contributor == Source::kAddedUp;
    if (summed) info.hasScalar = false;  // the scalars are in it already
    else info.scalar = ring_.note(number, static_cast<uint32_t>(source.contributor)).call.scalar;
    round_.push_back({info, locate(source, own.source, number) + at, bytes, false, summed});
  }
  (piece.completes ? machineSum_ : partSum_).run(round_, target);
}

ChunkView LocalGroup::view(const Collective& call, size_t index) const {
  const size_t unit = elementBytes(static_cast<DataType>(call.call.type));
  const Part part = rails_.partOf(localRank_, call.chunks[index].bytes, unit, call.spread);
  uint8_t* sum = ring_.sum(call.firstChunk + index) + part.begin;
  CallInfo info = call.call;
  info.hasScalar = false;  // applied to each rank's contribution already
  return {sum, sum, part.size(), info, true};
}

bool LocalGroup::seeSums() {
  bool moved = false;
  for (; maySee(localRank_); moved = true) {
    seen_ = unseen_.front() + 1;
    unseen_.pop_front();
    ring_.member(localRank_).awaited.store(unseen_.empty() ? 0 : unseen_.front() + 1);
  }
  return moved;
}

// Sums come in the order of each lane; they are published in the order of the ring.
void LocalGroup::finished(Collective& call, size_t index) {
  const std::pair<uint64_t, bool> chunk(call.firstChunk + index, false);
  std::lower_bound(unpublished_.begin(), unpublished_.end(), chunk)->second = true;
  publish();
}

void LocalGroup::publish() {
  while (!unpublished_.empty() && unpublished_.front().second) unpublished_.pop_front();
  const uint64_t upTo = unpublished_.empty() ? submitted_ : unpublished_.front().first;
  if (published_ == upTo) return;
  published_ = upTo;
  ring_.member(localRank_).published.store(upTo);
  wakeOthers();
}

Status LocalGroup::checkNumbers() const {
  if (!impossible_) return {};
  return failure(Code::kRemote,
                 "the memory that local ranks share is damaged: {} says it has done chunks that it cannot have begun",
                 spec_.roster->rankName(machine_->ranks[*impossible_]));
}

// A rank that has left contributes nothing to the calls that are still under way here.
Status LocalGroup::checkLeft() const {
  const Walk& last = walks_.back();
  if (last.calls.empty()) return {};
  for (uint32_t rank = 0; rank < ring_.shape().ranks; ++rank)
    if (ring_.member(rank).left.load() != 0 && ring_.member(rank).submitted.load() < submitted_)
      return failure(Code::kRemote, "{} has left the communicator, {} cannot complete",
                     spec_.roster->rankName(machine_->ranks[rank]), describe(last.calls.back()->call));
  return {};
}

void LocalGroup::leave() {
  ring_.member(localRank_).left.store(1);
  for (uint32_t rank = 0; rank < ring_.shape().ranks; ++rank)
    if (rank != localRank_) bells_[rank].ring();
}

bool LocalGroup::allTaken() const { return ring_.doneByAll(lastStage()) == ring_.done(localRank_, lastStage()).load(); }

void LocalGroup::wakeOthers() const {
  for (uint32_t rank = 0; rank < ring_.shape().ranks; ++rank)
    if (rank != localRank_ && ring_.member(rank).asleep.load() != 0 && mayAnything(rank)) bells_[rank].ring();
}

bool LocalGroup::fallAsleep() {
  ring_.member(localRank_).asleep.store(1);
  asleep_ = true;
  return !mayAnything(localRank_);
}

void LocalGroup::awake() {
  if (std::exchange(asleep_, false)) ring_.member(localRank_).asleep.store(0);
}

}  // namespace bps
