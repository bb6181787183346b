#include "src/comm/local/local_reducer.h"

#include <algorithm>

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
      ownBuffers_(spec_.own != nullptr ? *spec_.own : userBuffers_),
      ring_(std::move(ring)),
      traffic_(std::move(plan), counterRows(ring_), localRank()),
      stepCache_(program(), traffic_.meter(), localRank()),
      progress_(ring_, program(), localRank(), networked(), std::move(bells)),
      pieceRunner_(ring_, localRank(), spec_.roster->ranks.size(), networked(), spec_.reduceThreads),
      cursors_{{}, std::vector<ChunkCursor>(program().stages())},
      railSums_(progress_) {}

std::string LocalReducer::nameOf(size_t local) const {
  const Roster& roster = *spec_.roster;
  return roster.rankName(roster.machines[roster.ranks[spec_.rank].machine].ranks[local]);
}

void LocalReducer::setRails(const Rails& rails) {
  rails_ = rails;
  const std::vector<size_t> drivers = rails_.drivers();
  progress_.setDrivers({drivers.begin(), drivers.end()});
}

void LocalReducer::ChunkCursor::next() {
  if (++index < calls.front()->chunks.size()) return;
  calls.pop_front();
  index = 0;
}

void LocalReducer::submit(Collective& call) {
  call.firstChunk = count_.submitted;
  count_.submitted += call.chunks.size();
  cursors_.arrival.calls.push_back(&call);
  for (ChunkCursor& cursor : cursors_.stages) cursor.calls.push_back(&call);
  if (networked()) railSums_.submit(call.firstChunk, count_.submitted, rails_.carries(localRank(), call.onAllRails));
  admitReadyChunks();
  if (networked()) railSums_.publish();
}

// Tells the other ranks which contributions of this rank are ready. A contribution is not ready
// while it is being copied out of a device.
bool LocalReducer::admitReadyChunks() {
  ChunkCursor& arrival = cursors_.arrival;
  const uint64_t before = progress_.submitted();
  uint64_t arrived = before;
  for (; arrived < count_.submitted && ownBuffers_.ready(*arrival.calls.front(), arrival.index); ++arrived)
    arrival.next();
  if (arrived > before) progress_.setSubmitted(arrived);
  return arrived > before;
}

Result<bool> LocalReducer::step() {
  bool moved = admitReadyChunks();
  // Run later stages first, because they free slots and other ranks wait for them.
  for (size_t stage = cursors_.stages.size(); stage-- > 0;) {
    for (bool more = progress_.canRun(stage); more; more = stage > 0 && progress_.canRun(stage)) {
      BPS_TRY(runStage(stage));
      moved = true;
    }
  }
  if (moved) skipEmptyStages();
  moved = railSums_.takeReady() || moved;
  BPS_TRY(checkPeerCounters());
  if (!moved) BPS_TRY(failIfRankLeft());
  return moved;
}

Status LocalReducer::runStage(size_t stage) {
  ChunkCursor& cursor = cursors_.stages[stage];
  Collective& call = *cursor.calls.front();
  const ChunkRef& chunk = call.chunks[cursor.index];
  const uint64_t number = progress_.done(stage);
  const size_t lastStage = progress_.lastStage();
  if (stage == 0) ring_.chunkInfo(number, localRank()) = {call.call, chunk.bytes};
  const bool redundant = program().isReducedRedundantly(chunk.bytes);
  if (stage == (redundant ? lastStage : 1)) BPS_TRY(checkCallsUpTo(number));
  const StepCache::Entry& step = stepCache_.at(stage, chunk.bytes, elementBytes(static_cast<DataType>(call.call.type)));
  const ChunkView own = ownBuffers_.view(call, cursor.index);
  for (const Piece& piece : step.pieces) pieceRunner_.run(piece, own, number);
  traffic_.meter().increment(step.increments);
  // If `passesOn` is true, other ranks wait only for the counter of a later stage.
  // skipEmptyStages() stores that counter and wakes these ranks.
  const bool passesOn = redundant && stage == 0;
  progress_.setDone(stage, number + 1, passesOn ? std::memory_order_release : std::memory_order_seq_cst);
  if (stage == lastStage) ownBuffers_.finished(call, cursor.index);
  cursor.next();
  if (!passesOn) progress_.wakeOthers();
  return {};
}

// A redundantly reduced chunk, which every rank sums for itself, needs no work between its first
// and its last stage. step() skips the stages between them before it returns. So other ranks never
// wait for these stages while this rank sleeps.
void LocalReducer::skipEmptyStages() {
  bool passed = false;
  for (size_t stage = 1; stage < progress_.lastStage(); ++stage) {
    ChunkCursor& cursor = cursors_.stages[stage];
    for (; progress_.done(stage) < progress_.done(stage - 1) && program().isReducedRedundantly(cursor.bytes());
         passed = true) {
      progress_.setDone(stage, progress_.done(stage) + 1, std::memory_order_seq_cst);
      cursor.next();
    }
  }
  if (passed) progress_.wakeOthers();
}

// Compares the calls of the chunks in order, so that the error names the first call on which ranks
// disagree. Without this order, a redundantly reduced chunk would be compared later than a large
// chunk that follows it. All chunks up to `chunk` can be compared, because a rank that has begun a
// chunk has begun all earlier chunks.
Status LocalReducer::checkCallsUpTo(uint64_t chunk) {
  for (; count_.checked <= chunk; ++count_.checked)
    BPS_TRY(pieceRunner_.checkCalls(count_.checked, [this](size_t local) { return nameOf(local); }));
  return {};
}

ChunkView LocalReducer::view(const Collective& call, size_t index) const {
  const size_t unit = elementBytes(static_cast<DataType>(call.call.type));
  const ByteRange part = rails_.rangeOf(localRank(), call.chunks[index].bytes, unit, call.onAllRails);
  uint8_t* sum = ring_.sum(call.firstChunk + index) + part.begin;
  CallInfo info = call.call;
  info.hasScalar = false;  // the scalar is already applied to each rank's contribution
  return {sum, sum, part.size(), info, true};
}

void LocalReducer::finished(Collective& call, size_t index) { railSums_.received(call.firstChunk + index); }

Status LocalReducer::checkPeerCounters() const {
  const std::optional<uint32_t> rank = progress_.inconsistentRank();
  if (!rank) return {};
  return failure(Code::kRemote,
                 "memory shared by local ranks is damaged: {} reports finished chunks that it cannot have begun",
                 nameOf(*rank));
}

// Fails if a rank has left without contributing to all calls that are in flight on this rank.
Status LocalReducer::failIfRankLeft() const {
  const ChunkCursor& last = cursors_.stages.back();
  if (last.calls.empty()) return {};
  for (uint32_t rank = 0; rank < ring_.shape().ranks; ++rank)
    if (ring_.rankState(rank).left.load() != 0 && ring_.rankState(rank).submitted.load() < count_.submitted)
      return failure(Code::kRemote, "{} has left the communicator, {} cannot complete", nameOf(rank),
                     describe(last.calls.back()->call));
  return {};
}

void LocalReducer::addPeerWaits(std::vector<PeerWait>& waits) const {
  const uint64_t oldest = progress_.done(progress_.lastStage());
  if (oldest == count_.submitted) return;
  const uint32_t ranks = ring_.shape().ranks, self = localRank();
  std::vector<bool> done(ranks);
  const auto allDone = [&](auto counterOf) {
    for (uint32_t rank = 0; rank < ranks; ++rank) done[rank] = rank == self || counterOf(rank) > oldest;
    return std::find(done.begin(), done.end(), false) == done.end();
  };
  bool all = allDone([&](uint32_t rank) { return ring_.rankState(rank).submitted.load(); });
  for (size_t stage = 0; all && stage < progress_.lastStage(); ++stage) {
    if (progress_.done(stage) <= oldest) break;  // this rank itself has not done the stage
    all = allDone([&](uint32_t rank) { return ring_.done(rank, stage).load(); });
  }
  for (uint32_t rank = 0; rank < ranks; ++rank)
    if (rank != self) waits.push_back({nameOf(rank), PeerWait::Data::kContribution, done[rank] ? 0U : 1U, 0});
}

void LocalReducer::leave() {
  ring_.rankState(localRank()).left.store(1);
  progress_.wakeAll();
}

bool LocalReducer::allRanksFinished() const {
  const size_t lastStage = program().stages() - 1;
  return ring_.doneByAll(lastStage) == ring_.done(localRank(), lastStage).load();
}

}  // namespace bps
