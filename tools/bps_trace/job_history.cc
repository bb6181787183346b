#include "tools/bps_trace/job_history.h"

#include <algorithm>

namespace bps::trace {
namespace {

using trace::Stage;

bool isOfCall(Stage stage) { return stage <= Stage::kFailed; }
bool isOfOwner(const trace::Event& event) {
  return event.stage >= Stage::kArrived && event.peer != trace::kExchangePath;
}

}  // namespace

uint64_t TracedCall::firstSubmitted() const {
  uint64_t first = UINT64_MAX;
  for (const auto& [rank, on] : ranks)
    if (on.submitted > 0) first = std::min(first, on.submitted);
  return first == UINT64_MAX ? 0 : first;
}

uint64_t TracedCall::lastFinished() const {
  uint64_t last = 0;
  for (const auto& [rank, on] : ranks) last = std::max(last, on.finished);
  return last;
}

// Ranks come first, so the events of owners find the chunks that machines have contributed to. The other chunks are
// those of calls that the ranks have not recorded.
JobHistory::JobHistory(const TraceSet& set) : set_(set) {
  for (const TracedProcess& process : set.processes) {
    const trace::Header& header = process.file.header;
    if (!header.server) {
      machineOf_[header.number] = header.endpoint;
      ranksOf_[header.endpoint].push_back(header.number);
    }
    for (const trace::Event& event : process.file.events)
      if (isOfCall(event.stage)) addCallEvent(header.number, event);
      else if (!isOfOwner(event)) addMachineEvent(header.endpoint, event);
  }
  for (const TracedProcess& process : set.processes)
    for (const trace::Event& event : process.file.events)
      if (isOfOwner(event)) addOwnerEvent(process.file.header.endpoint, event);
}

const std::vector<uint32_t>& JobHistory::ranksOf(size_t machine) const {
  static const std::vector<uint32_t> none;
  const auto found = ranksOf_.find(machine);
  return found == ranksOf_.end() ? none : found->second;
}

void JobHistory::addCallEvent(uint32_t rank, const trace::Event& event) {
  TracedCall& call = calls_[event.call];
  call.number = event.call;
  call.bytes = event.bytes;
  CallOnRank& on = call.ranks[rank];
  if (event.stage == Stage::kSubmitted) on.submitted = event.time;
  else if (event.stage == Stage::kAdmitted) on.admitted = event.time;
  else if (event.stage == Stage::kCopiedOut) on.copiedOut = event.time;
  else on.finished = event.time;
  on.failed = event.stage == Stage::kFailed;
}

void JobHistory::addMachineEvent(size_t machine, const trace::Event& event) {
  TracedChunk*& chunk = byKey_[{event.peer, event.rail, event.sequence}];
  if (chunk == nullptr) {
    chunk = &chunks_.emplace_back();
    chunk->owner = event.peer;
    chunk->rail = event.rail;
    chunk->sequence = event.sequence;
    chunk->bytes = event.bytes;
    chunk->call = &calls_[event.call];
    chunk->call->number = event.call;
    chunk->call->chunks.push_back(chunk);
  }
  ChunkPart& part = chunk->parts[static_cast<uint16_t>(machine)];
  switch (event.stage) {
    case Stage::kChunkAdmitted:
      part.admitted = event.time;
      break;
    case Stage::kPushed:
      part.pushed = event.time;
      break;
    case Stage::kReceived:
      part.received = event.time;
      break;
    case Stage::kRetired:
      part.retired = event.time;
      break;
    case Stage::kSumBegun:
      part.sumBegun = event.time;
      break;
    case Stage::kSummed:
      part.summed = event.time;
      break;
    default:
      break;
  }
}

void JobHistory::addOwnerEvent(size_t owner, const trace::Event& event) {
  const auto found = byKey_.find({static_cast<uint16_t>(owner), event.rail, event.sequence});
  if (found == byKey_.end()) return;
  TracedChunk& chunk = *found->second;
  switch (event.stage) {
    case Stage::kArrived:
      chunk.parts[event.peer].arrived = event.time;
      break;
    case Stage::kAnswered:
      chunk.parts[event.peer].answered = event.time;
      break;
    case Stage::kSumBegun:
      chunk.sumBegun = event.time;
      break;
    case Stage::kSummed:
      chunk.summed = event.time;
      break;
    default:
      break;
  }
}

}  // namespace bps::trace
