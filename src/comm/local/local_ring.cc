#include "src/comm/local/local_ring.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "src/base/format.h"
#include "src/base/memory.h"

namespace bps {
namespace {

// Layout: the published number, members, notes, then (page aligned) the slots.
constexpr size_t kMembersAt = 64;
size_t notesAt(const LocalRingShape& shape) { return kMembersAt + shape.ranks * sizeof(LocalRing::Member); }
size_t dataAt(const LocalRingShape& shape) {
  return roundUp(notesAt(shape) + size_t{shape.slots} * shape.ranks * sizeof(ChunkNote), kPageBytes);
}

}  // namespace

static_assert(std::atomic<uint64_t>::is_always_lock_free && std::atomic<uint32_t>::is_always_lock_free,
              "atomics in memory shared by processes must not need a lock");

size_t LocalRing::bytes() const {
  return dataAt(shape_) + size_t{shape_.slots} * (shape_.ranks + 1) * shape_.slotBytes;
}

Result<LocalRing> LocalRing::create(const LocalRingShape& shape) {
  UniqueFd fd(::memfd_create("bps-local-ring", MFD_CLOEXEC));
  if (!fd) return systemFailure("memfd_create", errno);
  LocalRing ring(shape, std::move(fd));
  if (::ftruncate(ring.fd(), static_cast<off_t>(ring.bytes())) != 0)
    return systemFailure(fmt::format("{} bytes of memory shared by {} local ranks", ring.bytes(), shape.ranks), errno);
  BPS_TRY(ring.map());  // zeroed memory is the right start for every number
  return ring;
}

Result<LocalRing> LocalRing::attach(const LocalRingShape& shape, UniqueFd memory) {
  LocalRing ring(shape, std::move(memory));
  struct stat status {};
  if (::fstat(ring.fd(), &status) != 0) return systemFailure("fstat of the local ring", errno);
  if (static_cast<size_t>(status.st_size) != ring.bytes())
    return failure(Code::kRemote, "the leader's ring has {} bytes, expected {}", status.st_size, ring.bytes());
  BPS_TRY(ring.map());
  return ring;
}

Status LocalRing::map() {
  void* base = ::mmap(nullptr, bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, fd_.get(), 0);
  if (base == MAP_FAILED) return systemFailure(fmt::format("mapping {} bytes of the local ring", bytes()), errno);
  base_ = static_cast<uint8_t*>(base);
  published_ = reinterpret_cast<std::atomic<uint64_t>*>(base_);
  members_ = reinterpret_cast<Member*>(base_ + kMembersAt);
  notes_ = reinterpret_cast<ChunkNote*>(base_ + notesAt(shape_));
  data_ = base_ + dataAt(shape_);
  return {};
}

LocalRing::LocalRing(LocalRing&& other) noexcept
    : shape_(other.shape_),
      fd_(std::move(other.fd_)),
      base_(std::exchange(other.base_, nullptr)),
      published_(other.published_),
      members_(other.members_),
      notes_(other.notes_),
      data_(other.data_) {}

LocalRing::~LocalRing() {
  if (base_ != nullptr) ::munmap(base_, bytes());
}

bool LocalRing::slotFree(uint64_t chunk) const {
  for (uint32_t rank = 0; rank < shape_.ranks; ++rank)
    if (member(rank).consumed.load() + shape_.slots <= chunk) return false;
  return true;
}

}  // namespace bps
