#include "src/comm/call/collective.h"

#include <algorithm>

#include "cpu_reduce/reduce.h"

namespace bps {

void countBegin(Collective& call, CommCounters* counters) {
  call.counters = counters;
  if (counters == nullptr) return;
  call.submittedAt = std::chrono::steady_clock::now();
  counters->calls.begun.add(call.call.calls());
}

void countEnd(const Collective& call, bool completed) {
  if (call.counters == nullptr) return;
  CallCounters& counters = call.counters->calls;
  const std::chrono::nanoseconds lasted = std::chrono::steady_clock::now() - call.submittedAt;
  counters.nanoseconds.add(static_cast<uint64_t>(lasted.count()) * call.call.calls());
  (completed ? counters.completed : counters.failed).add(call.call.calls());
  if (!completed) return;
  const uint64_t bytes = call.call.elementsMoved() * elementBytes(static_cast<DataType>(call.call.type));
  counters.bytes.add(bytes);
  if (!call.stageSend && !call.stageRecv) return;
  uint64_t staged = bytes;
  for (const ChunkRef& chunk : call.chunks) staged -= chunk.onGpu ? chunk.bytes : 0;
  if (call.stageSend) counters.bytesToHost.add(staged);
  if (call.stageRecv) counters.bytesToDevice.add(staged);
}

std::optional<ParamPart> Collective::partOf(const ChunkRef& chunk) const {
  if (!param) return {};
  const size_t element = elementBytes(static_cast<DataType>(call.type));
  return ParamPart{param->param, param->push, param->machine, param->first + chunk.offset / element,
                   static_cast<uint32_t>(chunk.bytes / element)};
}

std::vector<ChunkRef> makeChunks(const Cut& cut, size_t elementBytes) {
  std::vector<ChunkRef> chunks;
  if (cut.usesExchangePath) {
    for (size_t round = 0; round < cut.chunks.front(); ++round) {
      const ChunkRange range = cut.chunk(0, round);
      chunks.push_back({ChunkRef::kExchangePath, range.offset * elementBytes, range.count * elementBytes,
                        static_cast<uint32_t>(round)});
    }
    if (chunks.empty()) chunks.push_back({ChunkRef::kExchangePath, 0, 0});
    return chunks;
  }
  std::vector<size_t> next(cut.share.size(), 0);  // per owner
  const auto add = [&](size_t owner) {
    const size_t index = next[owner]++;
    const ChunkRange range = index < cut.chunks[owner] ? cut.chunk(owner, index) : ChunkRange{};
    chunks.push_back({static_cast<uint32_t>(owner), range.offset * elementBytes, range.count * elementBytes,
                      static_cast<uint32_t>(index)});
  };
  add(cut.checker);
  for (size_t round = 0; round < cut.rounds; ++round)
    for (size_t owner = 0; owner < cut.share.size(); ++owner)
      if (next[owner] == round && round < cut.chunks[owner]) add(owner);
  return chunks;
}

std::vector<ChunkRef> makeChunks(const std::vector<BcubeBlock>& blocks, size_t elementBytes) {
  std::vector<ChunkRef> chunks;
  for (const BcubeBlock& block : blocks) {
    ChunkRef chunk{ChunkRef::kExchangePath, block.range.offset * elementBytes, block.range.count * elementBytes};
    chunk.round = static_cast<uint32_t>(chunks.size());
    chunk.thread = static_cast<uint32_t>(block.thread);
    chunks.push_back(chunk);
  }
  return chunks;
}

}  // namespace bps
