// The state that the ranks of a communicator share: a file that each rank maps.
//
// Collectives are numbered. A rank posts its contribution to a collective as soon as all ranks have
// collected the previous collective. A rank collects as soon as all ranks have posted. A wait ends
// when this rank aborts the communicator. If the wait blocks a thread of the program rather than a
// stream, an abort by another rank also ends the wait.
#pragma once
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

namespace bps::fake {

constexpr int kMaxRanks = 16;
constexpr size_t kSlotBytes = 17U << 20;
constexpr size_t kMessageBytes = 8U << 20;

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
  // In NCCL the abort flag is in the memory of the process. If a forked child sets the flag, it
  // changes only the child's copy.
  void abort() {
    left_ = true;
    if (::getpid() == process_) shared_->aborted = true;
  }

  // beginPost() returns the address at which to post, or null if the communicator is aborted.
  // waitForPosts() waits until all ranks have posted. waitForPosts() returns false if the
  // communicator is aborted.
  uint8_t* beginPost();
  void endPost();
  bool waitForPosts();
  const uint8_t* posted(int rank) const { return shared_->slots[rank]; }
  void endCollect();

  // Try to send or receive one message without waiting; return false if that is not yet possible. Sender and receiver
  // must agree on the size.
  bool send(int peer, const void* data, size_t bytes);
  bool receive(int peer, void* data, size_t bytes);
  bool aborted() const { return shared_->aborted; }
  // True if waiting operations must stop.
  bool isCancelled() const { return left_ || (!inStream && aborted()); }
  static thread_local bool inStream;  // true while the calling thread runs the stream of a device

  // Launches on one communicator run in the order of these counters, on any streams.
  uint64_t launched = 0;  // counted on the calling thread
  std::atomic<uint64_t> ran{0};

 private:
  bool await(const std::atomic<uint64_t>* counters) const;
  std::string path_;
  int rank_, nRanks_;
  Shared* shared_;
  const pid_t process_ = ::getpid();
  std::atomic<bool> left_{false};
  uint64_t number_ = 0;  // the number of the current collective
};

void pollPause();  // sleeps between two polls

}  // namespace bps::fake
