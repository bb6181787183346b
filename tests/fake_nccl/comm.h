// A communicator of the double, and the calls that its thread has queued.
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
  std::atomic<int> busyPolls = 0;  // of a non-blocking communicator: so many looks will still find it busy
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
  int peer;  // or root
  cudaStream_t stream;
  float scale = 1;  // of an operation made by the user
};

// The calling thread's group.
struct Queue {
  int depth = 0;
  std::vector<Operation> operations;
  std::vector<std::function<void()>> inits;  // what a communicator's start does when the group ends
};
Queue& queue();

// Now, or when the group ends.
ncclResult_t submit(const Operation& operation);
ncclResult_t runQueue(Queue& queue);
// Where the CPU finds the bytes of a buffer.
uint8_t* place(const void* pointer);
// Shares a few bytes of each rank.
std::vector<uint8_t> allGatherBytes(World& world, const void* mine, size_t bytes);

}  // namespace bps::fake
