#include "src/comm/call/param_copies.h"

namespace bps {

void ParamCopies::add(const std::vector<ChunkRef>& chunks, DataType type) {
  uint64_t bytes = 0;
  for (const ChunkRef& chunk : chunks) bytes += chunk.bytes;
  MutexLock lock(mutex_);
  for (const ChunkRef& chunk : chunks) {
    Copy copy;
    copy.ofParameter = bytes / elementBytes(type);
    copy.type = type;
    copy.owner = chunk.owner;
    copy.count = static_cast<uint32_t>(chunk.bytes / elementBytes(type));
    copies_[{parameters_, chunk.offset / elementBytes(type)}] = std::move(copy);
  }
  ++parameters_;
}

void ParamCopies::keep(const ParamPart& part, const ParamClock& clock, const uint8_t* value) {
  MutexLock lock(mutex_);
  const auto found = copies_.find({part.param, part.offset});
  if (found == copies_.end()) return;
  Copy& copy = found->second;
  if (!copy.value.empty() && copy.clock.version > clock.version) return;
  copy.clock = clock;
  copy.value.assign(value, value + copy.count * elementBytes(copy.type));
}

std::vector<std::pair<ParamCopies::Key, const ParamCopies::Copy*>> ParamCopies::parts() const {
  MutexLock lock(mutex_);
  std::vector<std::pair<Key, const Copy*>> found;
  for (const auto& [key, copy] : copies_) found.emplace_back(key, &copy);
  return found;
}

}  // namespace bps
