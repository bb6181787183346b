// FakeBuffers: user buffers for calls. The test controls which chunks are ready and sees which chunks are finished.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "src/comm/call/chunk_buffers.h"

namespace bps::test {

class FakeBuffers final : public ChunkBuffers {
 public:
  using Bytes = std::vector<uint8_t>;
  static constexpr size_t kMemoryBytes = 1U << 20;
  struct Options {
    size_t window = 8;
    bool inPlace = false, exchangePath = false, onGpu = false;
  };

  size_t readyBelow = SIZE_MAX;  // chunks with a lower index are ready

  // Adds a call that consists of chunks of equal size. Calls get the numbers 7, 8 and so on. Every byte of chunk i has
  // the value i + 1.
  Collective& add(size_t chunks, size_t chunkBytes, Options options) {
    auto& entry = *calls_.emplace_back(std::make_unique<Entry>());
    Collective& call = entry.call;
    entry.options = options;
    call.call.number = 6 + calls_.size();
    call.call.count = chunks * chunkBytes;
    call.window = options.window;
    call.send = reserve(chunks * chunkBytes);
    call.recv = options.inPlace ? const_cast<uint8_t*>(call.send) : reserve(chunks * chunkBytes);
    for (size_t i = 0; i < chunks; ++i) {
      ChunkRef chunk;
      chunk.owner = options.exchangePath ? ChunkRef::kExchangePath : 0;
      chunk.offset = i * chunkBytes;
      chunk.bytes = chunkBytes;
      chunk.round = static_cast<uint32_t>(i);
      call.chunks.push_back(chunk);
      std::fill_n(const_cast<uint8_t*>(call.send) + chunk.offset, chunkBytes, static_cast<uint8_t>(i + 1));
    }
    call.remaining = chunks;
    return call;
  }
  Collective& call(size_t c) { return calls_[c]->call; }
  Bytes source(size_t c, size_t i) { return bytesAt(call(c).send, call(c).chunks[i]); }
  Bytes target(size_t c, size_t i) { return bytesAt(call(c).recv, call(c).chunks[i]); }
  void overwriteSource(size_t c, size_t i) {
    const ChunkRef& chunk = call(c).chunks[i];
    std::fill_n(const_cast<uint8_t*>(call(c).send) + chunk.offset, chunk.bytes, uint8_t{0xee});
  }
  const std::vector<size_t>& finishedChunks() const { return finished_; }
  uint8_t* memory() { return memory_.data(); }
  // Forgets all calls, so that new calls use their memory.
  void reset() {
    calls_.clear();
    finished_.clear();
    finishedOnce_.clear();
    used_ = 0;
  }

  bool ready(const Collective&, size_t index) const override { return index < readyBelow; }
  ChunkView view(const Collective& call, size_t index) const override {
    const ChunkRef& chunk = call.chunks[index];
    const Options options = optionsOf(call);
    return {call.send + chunk.offset, call.recv + chunk.offset, chunk.bytes, call.call, options.inPlace, options.onGpu};
  }
  void finished(Collective& call, size_t index) override {
    EXPECT_TRUE(finishedOnce_.emplace(&call, index).second) << "chunk " << index << " is finished twice";
    finished_.push_back(index);
    --call.remaining;
  }

 private:
  struct Entry {
    Collective call;
    Options options;
  };
  static Bytes bytesAt(const uint8_t* memory, const ChunkRef& chunk) {
    return Bytes(memory + chunk.offset, memory + chunk.offset + chunk.bytes);
  }
  uint8_t* reserve(size_t bytes) {
    uint8_t* at = memory_.data() + used_;
    used_ += bytes;
    EXPECT_LE(used_, memory_.size());
    return at;
  }
  Options optionsOf(const Collective& call) const {
    return (*std::find_if(calls_.begin(), calls_.end(), [&](const auto& entry) { return &entry->call == &call; }))
        ->options;
  }

  std::vector<std::unique_ptr<Entry>> calls_;
  std::vector<size_t> finished_;
  std::set<std::pair<const Collective*, size_t>> finishedOnce_;
  Bytes memory_ = Bytes(kMemoryBytes);
  size_t used_ = 0;
};

}  // namespace bps::test
