#include "src/comm/call/fused_position.h"

#include <algorithm>
#include <cstring>

namespace bps {

Result<std::shared_ptr<FusedPosition>> FusedPosition::enter(std::span<const AllReduceCall> calls,
                                                            const std::shared_ptr<StreamWorker>& worker) {
  auto fused = std::make_shared<FusedPosition>();
  for (const AllReduceCall& call : calls) fused->bytes_ += call.bytes();
  fused->packed_ = BPS_TRY(PageBuffer::create(2 * fused->bytes_));
  for (const AllReduceCall& call : calls) {
    auto position = call.stream->enter(call.reads(), call.writes(), worker);
    // The calls of a fused call start together, so they do not wait for each other.
    std::erase_if(position->dependencies, [&](const auto& earlier) {
      return std::any_of(fused->entries_.begin(), fused->entries_.end(),
                         [&](const Entry& entry) { return entry.position == earlier; });
    });
    fused->entries_.push_back({call.reads(), static_cast<uint8_t*>(call.recv), std::move(position)});
  }
  return fused;
}

bool FusedPosition::mayStart() const {
  return std::all_of(entries_.begin(), entries_.end(), [](const Entry& entry) { return entry.position->mayStart(); });
}

void FusedPosition::start() {
  uint8_t* to = packed_.data();
  for (const Entry& entry : entries_) {
    if (entry.reads.bytes > 0) std::memcpy(to, entry.reads.begin, entry.reads.bytes);
    to += entry.reads.bytes;
  }
}

void FusedPosition::complete(const Status& outcome) {
  const uint8_t* from = sums();
  for (const Entry& entry : entries_) {
    if (outcome.ok() && entry.reads.bytes > 0) std::memcpy(entry.writes, from, entry.reads.bytes);
    from += entry.reads.bytes;
  }
  for (const Entry& entry : entries_) entry.position->complete(outcome);
}

}  // namespace bps
