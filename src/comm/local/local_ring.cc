#include "src/comm/local/local_ring.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "src/base/format.h"
#include "src/base/memory.h"

namespace bps {
namespace {

constexpr int kSizeSeals = F_SEAL_SHRINK | F_SEAL_GROW;

size_t rowLength(size_t numbers) { return roundUp(numbers * sizeof(uint64_t), kFalseSharingBytes) / sizeof(uint64_t); }

}  // namespace

static_assert(std::atomic<uint64_t>::is_always_lock_free && std::atomic<uint32_t>::is_always_lock_free,
              "atomics in memory shared by processes must not need a lock");

LocalRing::LocalRing(const LocalRingShape& shape, UniqueFd fd)
    : shape_(shape),
      fd_(std::move(fd)),
      doneRowLength_(rowLength(1) + rowLength(shape.stages - 1)),
      counterRowLength_(rowLength(shape.counters)),
      rankStatesOffset_(0),
      doneOffset_(rankStatesOffset_ + shape.ranks * sizeof(RankState)),
      countersOffset_(doneOffset_ + shape.ranks * doneRowLength_ * sizeof(Number)),
      chunkInfosOffset_(countersOffset_ + shape.ranks * counterRowLength_ * sizeof(Number)),
      dataOffset_(roundUp(chunkInfosOffset_ + size_t{shape.slots} * shape.ranks * sizeof(ChunkInfo), kPageBytes)),
      bytes_(dataOffset_ + size_t{shape.slots} * (shape.ranks + 1) * shape.slotBytes) {}

Result<LocalRing> LocalRing::create(const LocalRingShape& shape) {
  UniqueFd fd(::memfd_create("bps-local-ring", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) return systemFailure("memfd_create", errno);
  LocalRing ring(shape, std::move(fd));
  if (::ftruncate(ring.fd(), static_cast<off_t>(ring.bytes_)) != 0)
    return systemFailure(fmt::format("allocating {} bytes of memory for {} local ranks", ring.bytes_, shape.ranks),
                         errno);
  if (::fcntl(ring.fd(), F_ADD_SEALS, kSizeSeals | F_SEAL_SEAL) != 0)
    return systemFailure("sealing the size of the memory shared by local ranks", errno);
  BPS_TRY(ring.map());  // every counter starts at 0, because the kernel clears new memory
  return ring;
}

Result<LocalRing> LocalRing::attach(const LocalRingShape& shape, UniqueFd memory) {
  LocalRing ring(shape, std::move(memory));
  struct stat status {};
  if (::fstat(ring.fd(), &status) != 0) return systemFailure("fstat of the local ring", errno);
  if (static_cast<size_t>(status.st_size) != ring.bytes_)
    return failure(Code::kRemote, "the leader's ring has {} bytes, expected {}", status.st_size, ring.bytes_);
  if ((::fcntl(ring.fd(), F_GET_SEALS) & kSizeSeals) != kSizeSeals)  // an unsealed file could shrink while it is read
    return Status(Code::kRemote, "the size of the leader's ring is not sealed");
  BPS_TRY(ring.map());
  return ring;
}

Status LocalRing::map() {
  void* base = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, fd_.get(), 0);
  if (base == MAP_FAILED) return systemFailure(fmt::format("mapping {} bytes of the local ring", bytes_), errno);
  base_ = static_cast<uint8_t*>(base);
  return {};
}

LocalRing::LocalRing(LocalRing&& other) noexcept : LocalRing(other.shape_, std::move(other.fd_)) {
  base_ = std::exchange(other.base_, nullptr);
}

LocalRing::~LocalRing() {
  if (base_ != nullptr) ::munmap(base_, bytes_);
}

LocalRing::DoneRange LocalRing::doneRange(size_t stage, uint32_t exceptRank) const {
  DoneRange doneRange;
  for (uint32_t rank = 0; rank < shape_.ranks; ++rank) {
    if (rank == exceptRank) continue;
    const uint64_t number = done(rank, stage).load();
    doneRange.least = std::min(doneRange.least, number);
    if (number <= doneRange.most) continue;
    doneRange.most = number;
    doneRange.furthest = rank;
  }
  return doneRange;
}

}  // namespace bps
