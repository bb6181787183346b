#include "src/cuda/memory_kind.h"

#include <array>

namespace bps::cuda {

Result<MemoryKind> memoryKindOf(const Device& device, const void* pointer) {
  unsigned type = 0, managed = 0;
  void* hostPointer = nullptr;
  int ordinal = -1;
  const std::array<int, 4> attributes{kMemoryType, kHostPointer, kIsManaged, kDeviceOrdinal};
  std::array<void*, 4> values{&type, static_cast<void*>(&hostPointer), &managed, &ordinal};
  const Api& api = device.api();
  // For unknown memory the driver returns zeros and no error.
  BPS_TRY(check(
      api,
      api.pointerGetAttributes(attributes.size(), attributes.data(), values.data(), reinterpret_cast<Address>(pointer)),
      "cuPointerGetAttributes"));
  if (type == 0) return MemoryKind{false, false, -1, pointer};
  if (managed != 0) return MemoryKind{true, true, -1, pointer};
  if (type == kHostMemory) return MemoryKind{true, false, -1, hostPointer != nullptr ? hostPointer : pointer};
  return MemoryKind{true, true, ordinal, pointer};
}

}  // namespace bps::cuda
