// ChunkBuffers: locates the chunks of a call. The chunks of a rank are in the user's buffers, or in
// staging slots if the CPU cannot access the user's buffers (staged_buffers.h). The lanes carry the
// chunks of a machine, which are the chunks of its only rank or the slots that its ranks share
// (local_reducer.h). Only the holder of the progress lock (progress_engine.h) uses these classes.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "src/comm/call/collective.h"
#include "src/net/net.h"

namespace bps {

struct ChunkView {
  const uint8_t* source = nullptr;  // the contribution
  uint8_t* target = nullptr;        // memory for the sum of the chunk
  size_t bytes = 0;
  CallInfo call;        // describes the call in the header of the chunk
  bool inPlace = true;  // source and target are the same memory, so only a complete sum may be written
  bool onGpu = false;   // source and target are in GPU memory, which the CPU must not access
};

// Registers GPU memory with connections, so that chunks travel between this memory and their owners
// without a copy in host memory.
class GpuRegionRegistrar {
 public:
  virtual ~GpuRegionRegistrar() = default;
  // Registers the region with all connections that accept GPU memory. The result has one flag per
  // endpoint, which is true if the registration for this endpoint succeeded.
  virtual std::vector<bool> registerGpuRegion(const net::GpuRegion& region) = 0;
  // True if the connections of this endpoint carry GPU memory now. A server that has joined later, or the substitute of
  // a lost one, takes host memory only.
  virtual bool carriesGpuMemory(size_t endpoint) const = 0;
};

class ChunkBuffers {
 public:
  virtual ~ChunkBuffers() = default;
  // True if the contribution to chunk `index` of the call is complete in memory.
  virtual bool ready(const Collective& call, size_t index) const = 0;
  virtual ChunkView view(const Collective& call, size_t index) const = 0;
  // Called when the sum of the chunk is in its target.
  virtual void finished(Collective& call, size_t index) = 0;
};

// A view for any operation. A pull may write its target while it arrives, although source and target are the same.
inline ChunkView makeView(const Collective& call, const uint8_t* source, uint8_t* target, const ChunkRef& chunk) {
  const bool inPlace = source == target && call.call.op != static_cast<uint8_t>(CallOp::kParamPull);
  return {source, target, chunk.bytes, call.call, inPlace, chunk.onGpu};
}

// The buffers of a rank that is alone on its machine: the user's memory.
class UserBuffers final : public ChunkBuffers {
 public:
  bool ready(const Collective&, size_t) const override { return true; }
  ChunkView view(const Collective& call, size_t index) const override {
    const ChunkRef& chunk = call.chunks[index];
    return makeView(call, call.send + chunk.offset, call.recv + chunk.offset, chunk);
  }
  void finished(Collective& call, size_t) override { --call.remaining; }
};

}  // namespace bps
