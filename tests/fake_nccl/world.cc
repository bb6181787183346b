#include "tests/fake_nccl/world.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <thread>

namespace bps::fake {

thread_local bool World::inStream = false;

void pollPause() { std::this_thread::sleep_for(std::chrono::microseconds(50)); }

World::World(std::string path, int rank, int nRanks) : path_(std::move(path)), rank_(rank), nRanks_(nRanks) {
  const int fd = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  // The file is sparse. All bytes of a new file are zero.
  if (fd < 0 || nRanks > kMaxRanks || ::ftruncate(fd, sizeof(Shared)) != 0) std::abort();
  void* mapped = ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (mapped == MAP_FAILED) std::abort();
  ::close(fd);
  shared_ = static_cast<Shared*>(mapped);
  ++shared_->joined;
}

World::~World() { ::munmap(shared_, sizeof(Shared)); }

void World::waitForAll() const {
  while (!allJoined() && !aborted()) pollPause();
}

bool World::await(const std::atomic<uint64_t>* counters) const {
  for (int rank = 0; rank < nRanks_; ++rank)
    while (counters[rank] < number_) {
      if (isCancelled()) return false;
      pollPause();
    }
  return true;
}

uint8_t* World::beginPost() { return !isCancelled() && await(shared_->collected) ? shared_->slots[rank_] : nullptr; }
void World::endPost() { shared_->posted[rank_] = ++number_; }
bool World::waitForPosts() { return await(shared_->posted); }
void World::endCollect() { shared_->collected[rank_] = number_; }

bool World::send(int peer, const void* data, size_t bytes) {
  Shared::MessageSlot& mail = shared_->mail[rank_][peer];
  if (mail.sent != mail.received) return false;
  if (bytes > kMessageBytes) std::abort();
  mail.bytes = bytes;
  std::memcpy(mail.data, data, bytes);
  ++mail.sent;
  return true;
}

bool World::receive(int peer, void* data, size_t bytes) {
  Shared::MessageSlot& mail = shared_->mail[peer][rank_];
  if (mail.sent == mail.received) return false;
  if (mail.bytes != bytes) std::abort();
  std::memcpy(data, mail.data, bytes);
  ++mail.received;
  return true;
}

}  // namespace bps::fake
