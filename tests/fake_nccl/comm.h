// A communicator of the NCCL double, and the calls that the calling thread has queued.
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
  std::atomic<int> busyPolls = 0;  // of a non-blocking communicator: this many more polls find it in progress
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
  int op;    // reductions
  int peer;  // or the root
  cudaStream_t stream;
  float scale = 1;  // the factor of a user's operation
};

// The calling thread's group.
struct Queue {
  int depth = 0;
  std::vector<Operation> operations;
  std::vector<std::function<void()>> inits;  // starts of communicators, carried out when the group ends
};
Queue& queue();

// Carries the operation out now, or when the group ends.
ncclResult_t submit(const Operation& operation);
ncclResult_t runQueue(Queue& queue);
// The CPU's address of a buffer.
uint8_t* place(const void* pointer);
// All-gathers a few bytes of each rank.
std::vector<uint8_t> allGatherBytes(World& world, const void* mine, size_t bytes);

}  // namespace bps::fake
