#include "src/cuda/memory_kind.h"

#include <array>

namespace bps::cuda {

Result<MemoryKind> memoryKindOf(const Device& device, const void* pointer) {
  unsigned type = 0, managed = 0;
  void* hostPointer = nullptr;
  const std::array<int, 3> attributes{kMemoryType, kHostPointer, kIsManaged};
  std::array<void*, 3> values{&type, static_cast<void*>(&hostPointer), &managed};
  const Api& api = device.api();
  // For unknown memory the driver returns zeros and no error.
  BPS_TRY(check(
      api,
      api.pointerGetAttributes(attributes.size(), attributes.data(), values.data(), reinterpret_cast<Address>(pointer)),
      "cuPointerGetAttributes"));
  if (type == 0) return MemoryKind{false, false, pointer};
  if (type == kHostMemory && managed == 0)
    return MemoryKind{true, false, hostPointer != nullptr ? hostPointer : pointer};
  return MemoryKind{true, true, pointer};
}

}  // namespace bps::cuda
