// A communicator of the fake, and the calls that its thread has queued.
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "src/nccl/types.h"
#include "tests/fake_nccl/world.h"

struct ncclComm {
  std::unique_ptr<bps::fake::World> world;
  bool blocking = true;
  std::atomic<int> busyPolls = 0;  // of a non-blocking communicator: the number of polls that still find it busy
  std::map<int, float> ops;
  int nextOp = ncclNumOps;
  int children = 0;
};

namespace bps::fake {

struct Operation {
  enum class Kind { kAllReduce, kReduceScatter, kReduce, kAllGather, kBroadcast, kSend, kRecv };
  Kind kind;
  ncclComm_t comm;
  const void* send;
  void* recv;
  size_t count;
  ncclDataType_t type;
  int op;    // of a reduction
  int peer;  // peer or root
  cudaStream_t stream;
  float scale = 1;  // of a user-defined operation
};

// The group of the calling thread.
struct Queue {
  int depth = 0;
  std::vector<Operation> operations;
  std::vector<std::function<void()>> inits;  // the start of a communicator, run when the group ends
};
Queue& queue();

// Runs the operation now, or when the group ends.
ncclResult_t submit(const Operation& operation);
ncclResult_t runQueue(Queue& queue);
// Returns the address where the CPU can access a buffer.
uint8_t* place(const void* pointer);
// Gathers a few bytes of each rank.
std::vector<uint8_t> allGatherBytes(World& world, const void* mine, size_t bytes);

}  // namespace bps::fake
