// Collective: one all-reduce in flight on this rank. The calling thread makes it; from submit() on the holder of the
// progress lock (progress_engine.h) owns it.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "src/comm/call/stream_position.h"
#include "src/plan/cutter.h"
#include "src/wire/data_header.h"

namespace bps {

// One chunk of a call. All ranks have the same order of chunks: first one for the checker, then round by round, and
// owner by owner within a round. A call always has a chunk for its checker, which may have zero bytes. It comes first,
// so that no chunk of the same call delays it. Chunks on the exchange path have no owner: every machine gets them.
struct ChunkRef {
  static constexpr uint32_t kExchangePath = UINT32_MAX;

  bool usesExchangePath() const { return owner == kExchangePath; }
  uint32_t owner = 0;
  bool first = false;  // the first chunk of its owner in this call
  size_t offset = 0;   // bytes
  size_t bytes = 0;
  bool onGpu = false;   // a staged chunk that bypasses host memory
  uint32_t unsent = 0;  // exchange path: the number of lanes that still need the contribution in its place
};

struct Collective {
  CallInfo call;
  const uint8_t* send = nullptr;
  uint8_t* recv = nullptr;
  bool stageSend = false, stageRecv = false;  // the CPU cannot access this buffer, see staged_buffers.h
  const void* deviceScalar = nullptr;         // null: none; otherwise read when the call starts
  std::shared_ptr<StreamPosition> position;
  bool onHostStream = true;
  CutLimits limits;
  size_t window = 1;  // the number of rounds of this and earlier calls in flight on one lane when a round starts

  // These are set when the call is admitted.
  bool onAllRails = false;  // uses all rails, see plan/rails.h
  std::vector<ChunkRef> chunks;
  uint64_t firstChunk = 0;   // the index of chunks[0] among all chunks in the local ring
  uint64_t firstStaged = 0;  // the index of chunks[0] among all staged chunks, if the call is staged
  size_t remaining = 0;      // the number of chunks whose result is not in `recv` yet

  bool inPlace() const { return send == recv; }
  bool staged() const { return stageSend || stageRecv; }
};

std::vector<ChunkRef> makeChunks(const Cut& cut, size_t elementBytes);

}  // namespace bps
