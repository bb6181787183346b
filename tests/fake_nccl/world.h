// What the ranks of a communicator of the double share: a file, mapped by each.
//
// Collectives are numbered. A rank posts its contribution when everybody has collected the one before, and collects
// when everybody has posted. A wait ends when this rank aborts the communicator; one that holds up a thread of the
// program, and not a stream, also when another does.
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
  // NCCL's flag is in memory of the process: a forked child that sets it changes its copy.
  void abort() {
    left_ = true;
    if (::getpid() == process_) shared_->aborted = true;
  }

  // False: aborted. The place to post at, then the posts of all.
  uint8_t* beginPost();
  void endPost();
  bool waitForPosts();
  const uint8_t* posted(int rank) const { return shared_->slots[rank]; }
  void endCollect();

  // One try each.
  bool send(int peer, const void* data, size_t bytes);
  bool receive(int peer, void* data, size_t bytes);
  bool aborted() const { return shared_->aborted; }
  // What waits is to wait no longer.
  bool isCancelled() const { return left_ || (!inStream && aborted()); }
  static thread_local bool inStream;  // the calling thread is a device's

  // What is launched on one communicator runs in that order, whatever the streams.
  uint64_t launched = 0;  // by the thread that calls
  std::atomic<uint64_t> ran{0};

 private:
  bool await(const std::atomic<uint64_t>* counters) const;
  std::string path_;
  int rank_, nRanks_;
  Shared* shared_;
  const pid_t process_ = ::getpid();
  std::atomic<bool> left_{false};
  uint64_t number_ = 0;  // of collectives
};

void pollPause();  // between two looks

}  // namespace bps::fake
