// The SIMD kernels for integers, which wrap around on overflow. Calls with a division use the
// scalar kernels, because most CPUs have no vector instruction for integer division.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_reduce/simd_integer.cc"
#include "cpu_reduce/highway.h"
#include "cpu_reduce/simd-inl.h"

#if HWY_TARGET != HWY_EMU128 && HWY_TARGET != HWY_SCALAR
HWY_BEFORE_NAMESPACE();
namespace bps::cpu::HWY_NAMESPACE {

void fillIntegers(KernelTable& table) {
  fillRow<StoredAsIs<int8_t>>(table, DataType::kInt8);
  fillRow<StoredAsIs<uint8_t>>(table, DataType::kUint8);
  fillRow<StoredAsIs<int32_t>>(table, DataType::kInt32);
  fillRow<StoredAsIs<uint32_t>>(table, DataType::kUint32);
  fillRow<StoredAsIs<int64_t>>(table, DataType::kInt64);
  fillRow<StoredAsIs<uint64_t>>(table, DataType::kUint64);
}

}  // namespace bps::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
