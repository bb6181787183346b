#include "net_plugin/shm/segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "src/base/format.h"
#include "src/base/memory.h"

namespace bps::plugin::shm {
namespace {

constexpr size_t kDataOffset = kPageBytes;
constexpr size_t kSegmentBytes = kDataOffset + Segment::kRingBytes;
static_assert(sizeof(RingHeader) <= kDataOffset);

constexpr int kSizeSeals = F_SEAL_SHRINK | F_SEAL_GROW;

}  // namespace

Result<UniqueFd> Segment::createMemory() {
  UniqueFd memory(::memfd_create("bps-net", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!memory) return systemFailure("memfd_create", errno);
  if (::ftruncate(memory.get(), static_cast<off_t>(kSegmentBytes)) != 0)
    return systemFailure(fmt::format("{} bytes of shared memory", kSegmentBytes), errno);
  if (::fcntl(memory.get(), F_ADD_SEALS, kSizeSeals | F_SEAL_SEAL) != 0)
    return systemFailure("sealing shared memory", errno);
  return memory;
}

Result<Segment> Segment::map(int memory) {
  const int seals = ::fcntl(memory, F_GET_SEALS);
  if (seals < 0 || (seals & kSizeSeals) != kSizeSeals)
    return Status(Code::kRemote, "the peer's shared memory is not sealed against resizing");
  struct stat status {};
  if (::fstat(memory, &status) != 0) return systemFailure("fstat of shared memory", errno);
  if (status.st_size != static_cast<off_t>(kSegmentBytes))
    return failure(Code::kRemote, "the peer's shared memory has {} bytes, expected {}", status.st_size, kSegmentBytes);
  void* base = ::mmap(nullptr, kSegmentBytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
  if (base == MAP_FAILED) return systemFailure(fmt::format("mapping {} bytes of shared memory", kSegmentBytes), errno);
  return Segment(static_cast<uint8_t*>(base));
}

Segment::~Segment() {
  if (base_ != nullptr) ::munmap(base_, kSegmentBytes);
}

RingMemory Segment::ring() const {
  return {.header = reinterpret_cast<RingHeader*>(base_), .data = base_ + kDataOffset, .capacity = kRingBytes};
}

}  // namespace bps::plugin::shm
