// World: the memory that the ranks of a communicator of the NCCL double share, a file that each rank maps.
//
// Collectives are numbered. A rank posts its contribution when all ranks have collected the previous one, and collects
// when all have posted. A wait ends when this rank aborts the communicator. A wait of a thread of the program, but not
// of a stream, also ends when another rank aborts.
#pragma once
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

namespace bps::fake {

constexpr int kMaxRanks = 16;
constexpr size_t kSlotBytes = 17U << 20;
constexpr size_t kMessageBytes = 64U << 10;

struct Shared {
  std::atomic<int> joined;
  std::atomic<bool> aborted;
  std::atomic<uint64_t> posted[kMaxRanks], collected[kMaxRanks];
  struct MessageSlot {
    std::atomic<uint64_t> sent, received;
    size_t bytes;
    uint8_t data[kMessageBytes];
  } mail[kMaxRanks][kMaxRanks];
  uint8_t slots[kMaxRanks][kSlotBytes];
};

class World {
 public:
  World(std::string path, int rank, int nRanks);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  const std::string& path() const { return path_; }
  int rank() const { return rank_; }
  int nRanks() const { return nRanks_; }
  bool allJoined() const { return shared_->joined >= nRanks_; }
  void waitForAll() const;
  // NCCL's flag is in the process's memory, so an abort in a forked child changes only the child's copy.
  void abort() {
    left_ = true;
    if (::getpid() == process_) shared_->aborted = true;
  }

  // beginPost() returns the place to post at; null or false: aborted.
  uint8_t* beginPost();
  void endPost();
  bool waitForPosts();
  const uint8_t* posted(int rank) const { return shared_->slots[rank]; }
  void endCollect();

  // Each tries once.
  bool send(int peer, const void* data, size_t bytes);
  bool receive(int peer, void* data, size_t bytes);
  bool aborted() const { return shared_->aborted; }
  // True: waits must end.
  bool isCancelled() const { return left_ || (!inStream && aborted()); }
  static thread_local bool inStream;  // the calling thread runs a stream of the CUDA double

  // Launches on one communicator run in the order of the launches, whatever their streams.
  uint64_t launched = 0;  // only the calling thread uses it
  std::atomic<uint64_t> ran{0};

 private:
  bool await(const std::atomic<uint64_t>* counters) const;
  std::string path_;
  int rank_, nRanks_;
  Shared* shared_;
  const pid_t process_ = ::getpid();
  std::atomic<bool> left_{false};
  uint64_t number_ = 0;  // collectives so far
};

void pollPause();  // sleeps between two polls

}  // namespace bps::fake
