#include "src/reducer/gradients.h"

#include <cstring>
#include <utility>

namespace bps::reducer {
namespace {

// Copies, also if there are no bytes and the pointers are null.
void copy(void* to, const void* from, size_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}

Result<std::vector<PageBuffer>> allocate(const std::vector<Bucket>& buckets) {
  std::vector<PageBuffer> memory;
  for (const Bucket& bucket : buckets) {
    memory.push_back(BPS_TRY(PageBuffer::create(bucket.bytes)));
    std::memset(memory.back().data(), 0, bucket.bytes);
  }
  return memory;
}

}  // namespace

Result<Gradients> Gradients::create(std::vector<Parameter> parameters, bool views, std::vector<Bucket> buckets) {
  Gradients made(std::move(parameters), views);
  made.entries_.resize(made.parameters_.size());
  BPS_TRY(made.moveTo(std::move(buckets)));
  return made;
}

uint8_t* Gradients::slot(size_t parameter) const {
  const Entry& entry = entries_[parameter];
  return memory_[entry.bucket].data() + entry.offset;
}

Status Gradients::moveTo(std::vector<Bucket> buckets) {
  std::vector<PageBuffer> memory = BPS_TRY(allocate(buckets));
  for (size_t b = 0; b < buckets.size(); ++b) {
    for (size_t i = 0; i < buckets[b].parameters.size(); ++i) {
      const size_t parameter = buckets[b].parameters[i];
      const size_t offset = buckets[b].offsets[i];
      if (!memory_.empty()) copy(memory[b].data() + offset, slot(parameter), parameters_[parameter].bytes());
      entries_[parameter].bucket = b;
      entries_[parameter].offset = offset;
    }
  }
  memory_ = std::move(memory);
  buckets_ = std::move(buckets);
  return {};
}

void Gradients::forgetUse() {
  for (Entry& entry : entries_) entry.used = false;
}

void Gradients::contribute(size_t parameter, void* gradient) {
  Entry& entry = entries_[parameter];
  const size_t bytes = parameters_[parameter].bytes();
  uint8_t* const target = slot(parameter);
  entry.gradient = gradient;
  if (entry.used) {
    if (!views_) copy(target, gradient, bytes);
    return;
  }
  if (views_) entry.kept.assign(target, target + bytes);
  if (bytes > 0) std::memset(target, 0, bytes);
}

void Gradients::deliverUsed(size_t bucket) {
  if (views_) return;
  for (const size_t parameter : buckets_[bucket].parameters)
    if (entries_[parameter].used) copy(entries_[parameter].gradient, slot(parameter), parameters_[parameter].bytes());
}

void Gradients::deliverUnused(size_t bucket, const std::vector<uint8_t>& usedByAny) {
  for (const size_t parameter : buckets_[bucket].parameters) {
    const Entry& entry = entries_[parameter];
    if (entry.used) continue;
    const bool written = usedByAny[parameter] != 0;
    if (views_ && !written) copy(slot(parameter), entry.kept.data(), entry.kept.size());
    if (!views_ && written) copy(entry.gradient, slot(parameter), parameters_[parameter].bytes());
  }
}

}  // namespace bps::reducer
