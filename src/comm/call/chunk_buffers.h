// ChunkBuffers: where the chunks of a call lie. A rank's: in the user's buffers, or in staging slots where the CPU
// cannot reach those (staged_buffers.h). A machine's, which the lanes carry: its only rank's, or the slots that its
// ranks share (local_reducer.h). Used with the turn (progress_engine.h).
#pragma once
#include <cstddef>
#include <cstdint>

#include <vector>

#include "src/comm/call/collective.h"
#include "src/net/net.h"

namespace bps {

struct ChunkView {
  const uint8_t* source = nullptr;  // the contribution
  uint8_t* target = nullptr;        // where the sum goes
  size_t bytes = 0;
  CallInfo call;        // as the network is to see it
  bool inPlace = true;  // source and target are the same memory: the sum may only be written there whole
  bool onGpu = false;   // both are in the region that GpuRegionRegistrar was given: the CPU may not touch them
};

// Who carries chunks that lie on a GPU to their owners, without the host's memory.
class GpuRegionRegistrar {
 public:
  virtual ~GpuRegionRegistrar() = default;
  // Makes the region known to all connections that take such memory: whether those to each endpoint do.
  virtual std::vector<bool> registerGpuRegion(const net::GpuRegion& region) = 0;
};

class ChunkBuffers {
 public:
  virtual ~ChunkBuffers() = default;
  // The contribution to chunk `index` of the call is there.
  virtual bool ready(const Collective& call, size_t index) const = 0;
  virtual ChunkView view(const Collective& call, size_t index) const = 0;
  // The sum of the chunk is in its target.
  virtual void finished(Collective& call, size_t index) = 0;
};

// One rank on this machine: straight from and into the user's memory.
class UserBuffers final : public ChunkBuffers {
 public:
  bool ready(const Collective&, size_t) const override { return true; }
  ChunkView view(const Collective& call, size_t index) const override {
    const ChunkRef& chunk = call.chunks[index];
    return {call.send + chunk.offset, call.recv + chunk.offset, chunk.bytes, call.call, call.inPlace()};
  }
  void finished(Collective& call, size_t) override { --call.remaining; }
};

}  // namespace bps
