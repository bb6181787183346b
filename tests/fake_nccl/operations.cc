// Runs the calls of a group. Each step first posts for all communicators of the group and then
// collects for all of them. One thread may therefore drive several ranks.
#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <memory>
#include <utility>

#include "tests/fake_nccl/call_log.h"
#include "tests/fake_nccl/comm.h"

namespace bps::fake {
namespace {

// Finds a symbol of the fake CUDA driver. Returns null if the process has not loaded the driver.
void* fakeCudaSymbol(const char* name) {
  void* driver = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  return driver != nullptr ? ::dlsym(driver, name) : nullptr;
}

}  // namespace

uint8_t* place(const void* pointer) {
  using Alias = void* (*)(const void*);
  static const auto alias = reinterpret_cast<Alias>(fakeCudaSymbol("fakeCudaAlias"));
  return static_cast<uint8_t*>(alias != nullptr ? alias(pointer) : const_cast<void*>(pointer));
}

namespace {

size_t elementBytes(ncclDataType_t type) {
  static constexpr size_t kBytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
  return kBytes[type];
}

// The bytes that a rank sends for the operation, if NCCL moves as few bytes as possible.
size_t sentBytes(const Operation& one) {
  const size_t bytes = one.count * elementBytes(one.type), others = static_cast<size_t>(one.comm->world->nRanks()) - 1;
  switch (one.kind) {
    case Operation::Kind::kReduceScatter:
    case Operation::Kind::kAllGather:
      return bytes * others;
    case Operation::Kind::kSend:
      return bytes;
    default:
      return 0;
  }
}

bool collective(const Operation& one) { return one.kind <= Operation::Kind::kBroadcast; }

void post(const Operation& one) {
  World& world = *one.comm->world;
  uint8_t* slot = world.beginPost();
  if (slot == nullptr) return;
  const size_t parts = one.kind == Operation::Kind::kReduceScatter ? static_cast<size_t>(world.nRanks()) : 1;
  const size_t bytes = parts * one.count * elementBytes(one.type);
  if (bytes > kSlotBytes) std::abort();
  if (one.kind != Operation::Kind::kBroadcast || one.peer == world.rank()) std::memcpy(slot, place(one.send), bytes);
  if (one.scale != 1)
    for (size_t i = 0; i < one.count; ++i) reinterpret_cast<float*>(slot)[i] *= one.scale;
  world.endPost();
}

template <class T>
void reduce(const Operation& one) {
  World& world = *one.comm->world;
  if (one.kind == Operation::Kind::kReduce && world.rank() != one.peer) return;
  T* out = reinterpret_cast<T*>(place(one.recv));
  const size_t from = one.kind == Operation::Kind::kReduceScatter ? static_cast<size_t>(world.rank()) * one.count : 0;
  // NCCL does not specify the order. Like a ring, the fake begins after the rank that gets the sum.
  const int last = one.kind == Operation::Kind::kReduceScatter ? world.rank() : one.peer;
  for (size_t i = 0; i < one.count; ++i) {
    T sum{};
    for (int step = 1; step <= world.nRanks(); ++step) {
      const int rank = (last + step) % world.nRanks();
      const T next = reinterpret_cast<const T*>(world.posted(rank))[from + i];
      const bool replaces = (one.op == 2 && next > sum) || (one.op == 3 && next < sum);
      if (step == 1 || replaces) sum = next;
      else if (one.op == 1) sum = static_cast<T>(sum * next);
      else if (one.op != 2 && one.op != 3) sum = static_cast<T>(sum + next);
    }
    out[i] = one.op == ncclAvg ? static_cast<T>(sum / static_cast<T>(world.nRanks())) : sum;
  }
}

void collect(const Operation& one) {
  World& world = *one.comm->world;
  if (!world.waitForPosts()) return;
  const size_t bytes = one.count * elementBytes(one.type);
  if (one.kind <= Operation::Kind::kReduce) {
    if (one.type == ncclFloat32) reduce<float>(one);
    else reduce<int32_t>(one);
  } else if (one.kind == Operation::Kind::kBroadcast) {
    std::memcpy(place(one.recv), world.posted(one.peer), bytes);
  } else {
    for (int rank = 0; rank < world.nRanks(); ++rank)
      std::memcpy(place(one.recv) + static_cast<size_t>(rank) * bytes, world.posted(rank), bytes);
  }
  world.endCollect();
}

void runCollectives(const std::vector<Operation>& operations) {
  std::map<ncclComm_t, std::vector<const Operation*>> byComm;
  size_t rounds = 0;
  for (const Operation& one : operations)
    if (collective(one)) {
      byComm[one.comm].push_back(&one);
      rounds = std::max(rounds, byComm[one.comm].size());
    }
  for (size_t round = 0; round < rounds; ++round)
    for (const auto act : {&post, &collect})
      for (const auto& [comm, list] : byComm)
        if (round < list.size()) act(*list[round]);
}

void runPointToPoint(std::vector<Operation> left) {
  std::erase_if(left, collective);
  const auto tryOne = [](const Operation& one) {
    const size_t bytes = one.count * elementBytes(one.type);
    World& world = *one.comm->world;
    if (world.isCancelled()) return true;
    return one.kind == Operation::Kind::kSend ? world.send(one.peer, place(one.send), bytes)
                                              : world.receive(one.peer, place(one.recv), bytes);
  };
  while (!left.empty()) {
    std::erase_if(left, tryOne);
    pollPause();
  }
}

// The position of one launch among all launches on its communicator.
struct LaunchTicket {
  LaunchTicket(World& its, uint64_t place) : world(its), number(place) {}
  World& world;
  const uint64_t number;
  std::atomic<size_t> streams{0};
};
struct Batch {
  std::vector<Operation> operations;
  std::vector<std::shared_ptr<LaunchTicket>> tickets;
};
void run(void* argument) {
  const std::unique_ptr<Batch> batch(static_cast<Batch*>(argument));
  for (const auto& ticket : batch->tickets)
    while (ticket->world.ran < ticket->number && !ticket->world.isCancelled()) pollPause();
  runCollectives(batch->operations);
  runPointToPoint(batch->operations);
  for (const auto& ticket : batch->tickets)
    if (--ticket->streams == 0) ticket->world.ran = ticket->number + 1;
}

// Runs the operations. With the fake CUDA driver, the operations of each stream run in the order of
// the stream.
void launch(std::vector<Operation> operations) {
  using Launch = int (*)(void*, void (*)(void*), void*);
  static const auto onStream = reinterpret_cast<Launch>(fakeCudaSymbol("fakeCudaLaunch"));
  if (onStream == nullptr) {
    run(new Batch{std::move(operations), {}});
    return;
  }
  std::map<ncclComm_t, std::shared_ptr<LaunchTicket>> tickets;
  for (const Operation& one : operations)
    if (World& world = *one.comm->world; !tickets.contains(one.comm))
      tickets[one.comm] = std::make_shared<LaunchTicket>(world, world.launched++);
  std::vector<std::pair<cudaStream_t, Batch*>> batches;
  while (!operations.empty()) {
    const cudaStream_t stream = operations[0].stream;
    auto* batch = new Batch;
    for (const Operation& one : operations)
      if (one.stream == stream) batch->operations.push_back(one);
    std::erase_if(operations, [&](const Operation& one) { return one.stream == stream; });
    for (const auto& [comm, ticket] : tickets) {
      const auto isIts = [comm = comm](const Operation& one) { return one.comm == comm; };
      if (std::none_of(batch->operations.begin(), batch->operations.end(), isIts)) continue;
      batch->tickets.push_back(ticket);
      ++ticket->streams;
    }
    batches.emplace_back(stream, batch);
  }
  const auto onDevice = [](void* argument) {
    World::inStream = true;
    run(argument);
    World::inStream = false;
  };
  for (const auto& [stream, batch] : batches) onStream(stream, onDevice, batch);
}

}  // namespace

Queue& queue() {
  thread_local Queue mine;
  return mine;
}

ncclResult_t runQueue(Queue& queue) {
  for (const auto& init : std::exchange(queue.inits, {})) init();
  bool busy = false;
  for (const Operation& one : queue.operations) {
    if (one.comm->blocking) continue;
    one.comm->busyPolls = 2;
    busy = true;
  }
  launch(std::exchange(queue.operations, {}));
  return busy ? ncclInProgress : ncclSuccess;
}

ncclResult_t submit(const Operation& operation) {
  countSent(sentBytes(operation));
  queue().operations.push_back(operation);
  return queue().depth > 0 ? ncclSuccess : runQueue(queue());
}

std::vector<uint8_t> allGatherBytes(World& world, const void* mine, size_t bytes) {
  std::vector<uint8_t> all(bytes * static_cast<size_t>(world.nRanks()));
  if (uint8_t* slot = world.beginPost()) {
    std::memcpy(slot, mine, bytes);
    world.endPost();
  }
  if (world.waitForPosts())
    for (int rank = 0; rank < world.nRanks(); ++rank)
      std::memcpy(all.data() + static_cast<size_t>(rank) * bytes, world.posted(rank), bytes);
  world.endCollect();
  return all;
}

}  // namespace bps::fake
