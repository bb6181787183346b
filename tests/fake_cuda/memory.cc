// The fake driver's memory of all kinds, and its pointer queries.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "tests/fake_cuda/state.h"

namespace bps::fake {
namespace {

enum class Kind { kDevice, kManaged, kPinned, kRegistered };
struct Allocation {
  size_t bytes = 0;
  Kind kind = Kind::kDevice;
  int device = 0;
};

// The device memory of all devices: one memory file that is mapped at two addresses. The CPU cannot
// access the first mapping (dead_) by default, and it can always access the second (live_).
class Arena {
 public:
  static Arena& get() {
    static auto* instance = new Arena;
    return *instance;
  }
  bool holds(uintptr_t address) const { return address >= dead_ && address < dead_ + kBytes; }
  uintptr_t aliasOf(uintptr_t address) const { return address - dead_ + live_; }
  // Finds a free address for an allocation. Returns 0 if the arena is full.
  uintptr_t place(const std::map<uintptr_t, Allocation>& taken, size_t bytes) const {
    uintptr_t at = dead_;
    for (const auto& [begin, allocation] : taken) {
      if (!holds(begin)) continue;
      if (begin >= at + bytes + kGap) break;
      at = (begin + allocation.bytes + kGap + kAlign - 1) / kAlign * kAlign;
    }
    return at + bytes <= dead_ + kBytes ? at : 0;
  }

 private:
  static constexpr size_t kBytes = size_t{8} << 30, kAlign = 512, kGap = 4096;
  Arena() {
    const int file = ::memfd_create("double-of-device-memory", MFD_CLOEXEC);
    if (file < 0 || ::ftruncate(file, static_cast<off_t>(kBytes)) != 0) std::abort();
    dead_ = map(file, setting("FAKE_CUDA_PEER_MEMORY", 0) != 0 ? PROT_READ | PROT_WRITE : PROT_NONE);
    live_ = map(file, PROT_READ | PROT_WRITE);
    ::close(file);
  }
  static uintptr_t map(int file, int access) {
    void* memory = ::mmap(nullptr, kBytes, access, MAP_SHARED | MAP_NORESERVE, file, 0);
    if (memory == MAP_FAILED) std::abort();
    return reinterpret_cast<uintptr_t>(memory);
  }
  uintptr_t dead_ = 0, live_ = 0;
};

std::map<uintptr_t, Allocation>& allocations() {
  static auto* instance = new std::map<uintptr_t, Allocation>;
  return *instance;
}

// Finds the allocation that contains the address; null if the driver does not know the address. The
// caller must hold the lock.
const Allocation* find(uintptr_t address) {
  auto after = allocations().upper_bound(address);
  if (after == allocations().begin()) return nullptr;
  --after;
  return address < after->first + after->second.bytes ? &after->second : nullptr;
}

int hostMemory(void** memory, size_t bytes, Kind kind) {
  constexpr size_t kPage = 4096;
  *memory = std::aligned_alloc(kPage, (bytes + kPage - 1) / kPage * kPage);
  if (*memory == nullptr) return kOutOfMemory;
  Lock lock(state().mutex);
  drainContext(lock, *current());
  allocations()[reinterpret_cast<uintptr_t>(*memory)] = {bytes, kind, current()->device};
  return kSuccess;
}

// Waits until all operations in the streams of the device have ended.
void awaitDevice(Lock& lock, int device) {
  const Context& context = *state().primary[static_cast<size_t>(device)];
  std::vector<CompletionPtr> marks{context.legacy.last};
  for (const Stream* stream : context.streams) marks.push_back(stream->last);
  for (const CompletionPtr& completion : marks) state().changed.wait(lock, [&] { return completion->done; });
}

int release(uintptr_t address) {
  Lock lock(state().mutex);
  const auto found = allocations().find(address);
  if (found == allocations().end()) return kInvalidValue;
  const Kind kind = found->second.kind;
  if (setting("FAKE_CUDA_FREE_WAITS", 0) != 0) awaitDevice(lock, found->second.device);
  drainContext(lock, *state().primary[static_cast<size_t>(found->second.device)]);
  allocations().erase(address);
  if (kind == Kind::kManaged || kind == Kind::kPinned) std::free(reinterpret_cast<void*>(address));
  return kSuccess;
}

// Values of the driver's enumerations CUpointer_attribute and CUmemorytype.
constexpr int kMemoryType = 2, kHostPointer = 4, kIsManaged = 8, kDeviceOrdinal = 9;
constexpr unsigned kHostType = 1, kDeviceType = 2;

template <class T>
void store(void* out, T value) {
  std::memcpy(out, &value, sizeof value);
}

void tell(int attribute, uintptr_t pointer, const Allocation* known, void* out) {
  const bool host = known != nullptr && (known->kind == Kind::kPinned || known->kind == Kind::kRegistered);
  if (attribute == kMemoryType) store(out, known == nullptr ? 0U : host ? kHostType : kDeviceType);
  if (attribute == kHostPointer) store(out, known == nullptr || known->kind == Kind::kDevice ? uintptr_t{0} : pointer);
  if (attribute == kIsManaged) store(out, unsigned{known != nullptr && known->kind == Kind::kManaged});
  if (attribute == kDeviceOrdinal) store(out, known == nullptr ? -2 : known->device);
}

}  // namespace

void* alias(const void* pointer) {
  const auto address = reinterpret_cast<uintptr_t>(pointer);
  return reinterpret_cast<void*>(Arena::get().holds(address) ? Arena::get().aliasOf(address) : address);
}

bool isDeviceMemory(const void* pointer) { return Arena::get().holds(reinterpret_cast<uintptr_t>(pointer)); }

bool isPageable(const void* pointer, size_t bytes) {
  const auto begin = reinterpret_cast<uintptr_t>(pointer);
  const Lock lock(state().mutex);
  const Allocation* known = find(begin);
  return known == nullptr || (bytes > 0 && find(begin + bytes - 1) != known);
}

}  // namespace bps::fake

using namespace bps::fake;

FAKE_CUDA size_t fakeCudaRegistered(uintptr_t* addresses, size_t most) {
  const Lock lock(state().mutex);
  size_t stored = 0;
  for (const auto& [address, allocation] : allocations())
    if (allocation.kind == Kind::kRegistered && stored < most) addresses[stored++] = address;
  return stored;
}

FAKE_CUDA int cuMemAlloc_v2(uintptr_t* pointer, size_t bytes) {
  const int failed = enterUnsafe("cuMemAlloc_v2");
  if (failed != kSuccess) return failed;
  Lock lock(state().mutex);
  drainContext(lock, *current());
  *pointer = bytes == 0 ? 0 : Arena::get().place(allocations(), bytes);
  if (*pointer == 0) return bytes == 0 ? kInvalidValue : kOutOfMemory;
  allocations()[*pointer] = {bytes, Kind::kDevice, current()->device};
  return kSuccess;
}

FAKE_CUDA int cuMemFree_v2(uintptr_t pointer) {
  const int failed = enterInContext("cuMemFree_v2");
  return failed != kSuccess ? failed : release(pointer);
}

FAKE_CUDA int cuMemAllocManaged(uintptr_t* pointer, size_t bytes, unsigned) {
  const int failed = enterUnsafe("cuMemAllocManaged");
  return failed != kSuccess ? failed : hostMemory(reinterpret_cast<void**>(pointer), bytes, Kind::kManaged);
}

FAKE_CUDA int cuMemHostAlloc(void** memory, size_t bytes, unsigned) {
  const int failed = enterUnsafe("cuMemHostAlloc");
  return failed != kSuccess ? failed : hostMemory(memory, bytes, Kind::kPinned);
}

FAKE_CUDA int cuMemFreeHost(void* memory) {
  const int failed = enterInContext("cuMemFreeHost");
  return failed != kSuccess ? failed : release(reinterpret_cast<uintptr_t>(memory));
}

FAKE_CUDA int cuMemHostRegister_v2(void* memory, size_t bytes, unsigned) {
  const int failed = enterUnsafe("cuMemHostRegister_v2");
  if (failed != kSuccess) return failed;
  const auto begin = reinterpret_cast<uintptr_t>(memory);
  Lock lock(state().mutex);
  drainContext(lock, *current());
  if (memory == nullptr || bytes == 0) return kInvalidValue;
  const auto next = allocations().lower_bound(begin);
  const bool overlaps = find(begin) != nullptr || (next != allocations().end() && next->first < begin + bytes);
  if (overlaps) return kAlreadyRegistered;
  allocations()[begin] = {bytes, Kind::kRegistered, current()->device};
  return kSuccess;
}

FAKE_CUDA int cuMemHostUnregister(void* memory) {
  const int failed = enterInContext("cuMemHostUnregister");
  if (failed != kSuccess) return failed;
  {
    const Lock lock(state().mutex);
    const auto found = allocations().find(reinterpret_cast<uintptr_t>(memory));
    if (found == allocations().end() || found->second.kind != Kind::kRegistered) return kNotRegistered;
  }
  return release(reinterpret_cast<uintptr_t>(memory));
}

FAKE_CUDA int cuMemHostGetDevicePointer_v2(uintptr_t* pointer, void* memory, unsigned) {
  const int failed = enterInContext("cuMemHostGetDevicePointer_v2");
  if (failed != kSuccess) return failed;
  *pointer = reinterpret_cast<uintptr_t>(memory);
  return isPageable(memory, 1) ? kInvalidValue : kSuccess;
}

FAKE_CUDA int cuPointerGetAttributes(unsigned count, const int* attributes, void** values, uintptr_t pointer) {
  const int failed = enterInContext("cuPointerGetAttributes");
  if (failed != kSuccess) return failed;
  const Lock lock(state().mutex);
  for (unsigned i = 0; i < count; ++i) tell(attributes[i], pointer, find(pointer), values[i]);
  return kSuccess;
}

FAKE_CUDA int cuPointerGetAttribute(void* value, int attribute, uintptr_t pointer) {
  const int failed = enterInContext("cuPointerGetAttribute");
  if (failed != kSuccess) return failed;
  const Lock lock(state().mutex);
  const Allocation* known = find(pointer);
  if (known == nullptr) return kInvalidValue;
  tell(attribute, pointer, known, value);
  return kSuccess;
}
