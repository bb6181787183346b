#include "src/comm/local/local_progress.h"

#include <algorithm>

namespace bps {

void LocalProgress::setDone(size_t stage, uint64_t done, std::memory_order order) {
  own_.done[stage] = done;
  ring_.done(self_, stage).store(done, order);
}

// Release order is enough, because this store lets only this rank continue. This rank checks its
// counters again after it has set `asleep`.
void LocalProgress::setSubmitted(uint64_t submitted) {
  own_.submitted = submitted;
  ring_.rankState(self_).submitted.store(submitted, std::memory_order_release);
}

void LocalProgress::setAwaited(uint64_t awaited) {
  own_.awaited = awaited;
  ring_.rankState(self_).awaited.store(awaited);
}

void LocalProgress::setPublished(uint64_t published) {
  own_.published = published;
  ring_.rankState(self_).published.store(published);
}

bool LocalProgress::canRun(uint32_t rank, size_t stage) const {
  const uint64_t chunk = done(rank, stage);
  if (stage == 0) {
    const uint64_t submitted = rank == self_ ? own_.submitted : ring_.rankState(rank).submitted.load();
    return chunk < submitted && isSlotFree(chunk);
  }
  if (chunk >= done(rank, stage - 1)) return false;
  if (stage == lastStage() && networked_) return isPublished(chunk);
  if (program_.waitsForAll(stage)) return allRanksDone(stage - 1, chunk);
  return chunk < done(static_cast<uint32_t>(program_.predecessor(rank)), stage - 1);
}

// Returns the number of chunks for which all other ranks have done this stage. A slot is reused
// only after this rank has done the last stage of its chunk. So the counters of a rank that seems
// to be more than one ring ahead are damaged; the function then returns 0.
uint64_t LocalProgress::doneByOthers(size_t stage) const {
  const LocalRing::DoneRange others = ring_.doneRange(stage, self_);
  if (others.most <= own_.done[lastStage()] + ring_.shape().slots) return others.least;
  inconsistentRank_ = others.furthest;
  return 0;
}

bool LocalProgress::allRanksDone(size_t stage, uint64_t chunk) const {
  return chunk < own_.done[stage] && chunk < doneByOthers(stage);
}

// True if the slot of `chunk` is free because every rank has done the last stage of the slot's
// previous chunk.
bool LocalProgress::isSlotFree(uint64_t chunk) const {
  if (chunk >= freeBelow_)
    freeBelow_ = std::min(own_.done[lastStage()], doneByOthers(lastStage())) + ring_.shape().slots;
  return chunk < freeBelow_;
}

// True if every driver has published the chunk. A driver publishes a chunk only after the chunk has
// been submitted to it.
bool LocalProgress::isPublished(uint64_t chunk) const {
  return std::all_of(drivers_.begin(), drivers_.end(), [&](uint32_t driver) {
    return chunk < (driver == self_ ? own_.published : ring_.rankState(driver).published.load());
  });
}

bool LocalProgress::sumIsReady(uint32_t rank) const {
  const uint64_t awaited = rank == self_ ? own_.awaited : ring_.rankState(rank).awaited.load();
  return awaited > 0 && allRanksDone(lastStage() - 1, awaited - 1);
}

bool LocalProgress::canRunAnyStage(uint32_t rank) const {
  for (size_t stage = 0; stage <= lastStage(); ++stage)
    if (canRun(rank, stage)) return true;
  return sumIsReady(rank);
}

void LocalProgress::wakeOthers() const {
  for (uint32_t rank = 0; rank < ring_.shape().ranks; ++rank)
    if (rank != self_ && ring_.rankState(rank).asleep.load() != 0 && canRunAnyStage(rank)) doorbells_[rank].ring();
}

void LocalProgress::wakeAll() const {
  for (uint32_t rank = 0; rank < ring_.shape().ranks; ++rank)
    if (rank != self_) doorbells_[rank].ring();
}

bool LocalProgress::prepareToSleep() {
  ring_.rankState(self_).asleep.store(1);
  own_.asleep = true;
  return !canRunAnyStage(self_);
}

void LocalProgress::endSleep() {
  if (std::exchange(own_.asleep, false)) ring_.rankState(self_).asleep.store(0);
}

}  // namespace bps
