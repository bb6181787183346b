// Collective: one all-reduce under way on this rank.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "src/comm/call/stream_position.h"
#include "src/plan/cutter.h"
#include "src/wire/data_header.h"

namespace bps {

// One chunk of a call, in the call's order of chunks: the checker's first one, then round by round, within a round
// owner by owner. That order is the same on all ranks. A call always has a chunk for its checker, if need be one of
// zero bytes: no chunk of the same call can hold it up.
// The chunks of a direct call have no owner: every machine gets them.
struct ChunkRef {
  static constexpr uint32_t kExchangePath = UINT32_MAX;

  bool usesExchangePath() const { return owner == kExchangePath; }
  uint32_t owner = 0;
  bool first = false;  // of its owner in this call
  size_t offset = 0;   // bytes
  size_t bytes = 0;
  bool onGpu = false;   // of a call that is staged: passes by the host's memory
  uint32_t unsent = 0;  // of a direct chunk: lanes that need the contribution where it is
};

// Made by the calling thread, then owned by the engine until it is complete.
struct Collective {
  CallInfo call;
  const uint8_t* send = nullptr;
  uint8_t* recv = nullptr;
  bool stageSend = false, stageRecv = false;  // memory that the CPU cannot reach, see staged_buffers.h
  const void* deviceScalar = nullptr;         // read when the call starts
  std::shared_ptr<StreamPosition> position;
  bool onHostStream = true;  // in a host stream
  CutLimits limits;
  size_t window = 1;  // rounds of this call and those before it under way on one lane when the next one starts

  // Set when the channel admits the call.
  bool onAllRails = false;  // over all rails, see rails.h
  std::vector<ChunkRef> chunks;
  uint64_t firstChunk = 0;   // number of chunks[0] among all that pass the ring of the local ranks
  uint64_t firstStaged = 0;  // and, of a call that is staged, among all that are
  size_t remaining = 0;      // chunks whose result is not in `recv` yet

  bool inPlace() const { return send == recv; }
  bool staged() const { return stageSend || stageRecv; }
};

std::vector<ChunkRef> makeChunks(const Cut& cut, size_t elementBytes);

}  // namespace bps
