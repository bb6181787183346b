#include "src/comm/local/local_group.h"

#include <cstring>

#include "src/base/format.h"

namespace bps {

LocalGroup::LocalGroup(LocalGroupSpec spec, LocalRing ring, std::vector<Doorbell> bells)
    : spec_(std::move(spec)),
      localRank_(spec_.roster->ranks[spec_.rank].localRank),
      machine_(&spec_.roster->machines[spec_.roster->ranks[spec_.rank].machine]),
      ring_(std::move(ring)),
      bells_(std::move(bells)),
      finished_(ring_.shape().slots),
      round_(ring_.shape().ranks),
      // Over a network the average is divided once, by the owner.
      roundSum_(spec_.roster->machines.size() == 1 ? spec_.roster->ranks.size() : 1, spec_.reduceThreads) {}

void LocalGroup::Walk::next() {
  if (++index < calls.front()->chunks.size()) return;
  calls.pop_front();
  index = 0;
}

void LocalGroup::submit(Collective& call) {
  call.firstChunk = submitted_;
  submitted_ += call.chunks.size();
  in_.calls.push_back(&call);
  out_.calls.push_back(&call);
}

bool LocalGroup::canSum() const {
  if (!leads() || summed_ >= copiedIn_) return false;
  for (uint32_t rank = 0; rank < ring_.shape().ranks; ++rank)
    if (ring_.member(rank).contributed.load() <= summed_) return false;
  return true;
}

bool LocalGroup::canCopyOut() const { return !out_.atEnd() && copiedOut_ < ring_.published().load(); }

void LocalGroup::copyIn() {
  const Collective& call = *in_.calls.front();
  const ChunkRef& chunk = call.chunks[in_.index];
  ring_.note(copiedIn_, localRank_) = {call.call, chunk.bytes};
  if (chunk.bytes > 0) std::memcpy(ring_.contribution(copiedIn_, localRank_), call.send + chunk.offset, chunk.bytes);
  in_.next();
  ring_.member(localRank_).contributed.store(++copiedIn_);
}

Status LocalGroup::sum() {
  for (uint32_t rank = 0; rank < ring_.shape().ranks; ++rank) {
    const ChunkNote& note = ring_.note(summed_, rank);
    round_[rank] = {note.call, ring_.contribution(summed_, rank), note.bytes};
  }
  BPS_TRY(checkRound(round_, [this](size_t local) { return spec_.roster->rankName(machine_->ranks[local]); }));
  roundSum_.run(round_, ring_.sum(summed_));
  ++summed_;
  if (spec_.roster->machines.size() == 1) publish(summed_);
  return {};
}

void LocalGroup::copyOut() {
  Collective& call = *out_.calls.front();
  const ChunkRef& chunk = call.chunks[out_.index];
  if (chunk.bytes > 0) std::memcpy(call.recv + chunk.offset, ring_.sum(copiedOut_), chunk.bytes);
  out_.next();
  ring_.member(localRank_).consumed.store(++copiedOut_);
  --call.remaining;
}

ChunkView LocalGroup::view(const Collective& call, size_t index) const {
  uint8_t* sum = ring_.sum(call.firstChunk + index);
  CallInfo info = call.call;
  info.hasScalar = false;  // applied to each rank's contribution already
  return {sum, sum, call.chunks[index].bytes, info, true};
}

// Sums come in the order of each lane; they are published in the order of the ring.
void LocalGroup::finished(Collective& call, size_t index) {
  const uint32_t slots = ring_.shape().slots;
  finished_[(call.firstChunk + index) % slots] = true;
  uint64_t upTo = ring_.published().load();
  const uint64_t before = upTo;
  for (; upTo < summed_ && finished_[upTo % slots]; ++upTo) finished_[upTo % slots] = false;
  if (upTo > before) publish(upTo);
}

void LocalGroup::publish(uint64_t upTo) {
  ring_.published().store(upTo);
  wakeAll();
}

Result<bool> LocalGroup::step() {
  bool moved = false;
  if (canCopyIn()) {
    copyIn();
    moved = true;
  }
  while (canSum()) {
    BPS_TRY(sum());
    moved = true;
  }
  while (canCopyOut()) {
    copyOut();
    moved = true;
  }
  if (moved) wakeAll();
  else BPS_TRY(checkLeft());
  return moved;
}

// A rank that has left contributes nothing to the calls that are still under way here.
Status LocalGroup::checkLeft() const {
  if (out_.atEnd()) return {};
  for (uint32_t rank = 0; rank < ring_.shape().ranks; ++rank) {
    const LocalRing::Member& member = ring_.member(rank);
    if (member.left.load() == 0) continue;
    if (member.contributed.load() < submitted_)
      return failure(Code::kRemote, "{} has left the communicator, {} cannot complete",
                     spec_.roster->rankName(machine_->ranks[rank]), describe(out_.calls.back()->call));
  }
  return {};
}

void LocalGroup::leave() {
  ring_.member(localRank_).left.store(1);
  wakeAll();
}

void LocalGroup::wakeAll() const {
  for (uint32_t rank = 0; rank < ring_.shape().ranks; ++rank)
    if (rank != localRank_ && ring_.member(rank).asleep.load() != 0) bells_[rank].ring();
}

bool LocalGroup::fallAsleep() {
  ring_.member(localRank_).asleep.store(1);
  return !canCopyIn() && !canSum() && !canCopyOut();
}

void LocalGroup::awake() { ring_.member(localRank_).asleep.store(0); }

}  // namespace bps
