#include "src/comm/call/fused_position.h"

#include <algorithm>
#include <cstring>
#include <map>

namespace bps {

std::shared_ptr<FusedPosition> FusedPosition::enter(std::span<const AllReduceCall> calls,
                                                    const std::shared_ptr<StreamWorker>& worker) {
  auto fused = std::make_shared<FusedPosition>();
  fused->copies_.reserve(calls.size());
  std::map<std::shared_ptr<HostStream>, std::vector<CallBuffers>> byStream;
  for (const AllReduceCall& call : calls) {
    byStream[call.stream].push_back(call.buffers());
    if (call.count > 0) fused->copies_.push_back({call.send, call.recv, call.bytes()});
    fused->bytes_ += call.bytes();
  }
  fused->packed_ = std::make_unique_for_overwrite<uint8_t[]>(2 * fused->bytes_);
  for (auto& [stream, parts] : byStream) fused->entries_.push_back(stream->enterFused(std::move(parts), worker));
  return fused;
}

bool FusedPosition::mayStart() const {
  return std::all_of(entries_.begin(), entries_.end(), [](const auto& entry) { return entry->mayStart(); });
}

void FusedPosition::start() {
  uint8_t* to = packed_.get();
  for (const Copy& copy : copies_) {
    std::memcpy(to, copy.contribution, copy.bytes);
    to += copy.bytes;
  }
}

void FusedPosition::complete(const Status& outcome) {
  const uint8_t* from = sums();
  if (outcome.ok())
    for (const Copy& copy : copies_) {
      std::memcpy(copy.sum, from, copy.bytes);
      from += copy.bytes;
    }
  for (const auto& entry : entries_) entry->complete(outcome);
}

}  // namespace bps
