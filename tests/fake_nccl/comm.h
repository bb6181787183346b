// A communicator of the fake NCCL, and the calls that a thread has queued in a group.
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
  std::atomic<int> busyPolls = 0;  // the number of polls that will still find a non-blocking communicator busy
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
  int op;    // the operation of a reduction
  int peer;  // the rank of the peer or the root
  cudaStream_t stream;
  float scale = 1;  // the factor of a user-defined operation
};

// The group of calls that the calling thread has open.
struct Queue {
  int depth = 0;
  std::vector<Operation> operations;
  std::vector<std::function<void()>> inits;  // start communicators; they run when the group ends
};
Queue& queue();

// Runs the operation now, or when the open group ends.
ncclResult_t submit(const Operation& operation);
ncclResult_t runQueue(Queue& queue);
// Returns the address at which the CPU can access a buffer.
uint8_t* place(const void* pointer);
// Gathers `bytes` bytes of each rank, on every rank.
std::vector<uint8_t> allGatherBytes(World& world, const void* mine, size_t bytes);

}  // namespace bps::fake
