// Integers. They wrap. Calls with a division use the scalar kernel, because there is no vector instruction for it.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_reduce/simd_integer.cc"
#include "cpu_reduce/highway.h"
#include "cpu_reduce/simd-inl.h"

#if HWY_TARGET != HWY_EMU128 && HWY_TARGET != HWY_SCALAR
HWY_BEFORE_NAMESPACE();
namespace bps::cpu::HWY_NAMESPACE {
namespace {

template <class T>
struct Integer {
  using D = hn::ScalableTag<T>;
  using V = hn::Vec<D>;
  static constexpr size_t kBytes = sizeof(T);
  static constexpr size_t kVectors = HWY_TARGET == HWY_AVX3 ? 2 : 4;
  static constexpr PrefetchMode kPrefetch = PrefetchMode::kFromNextCache;

  static HWY_INLINE void load(const uint8_t* from, V& a0, V& a1, V& a2, V& a3) {
    const D d;
    const size_t n = hn::Lanes(d);
    const T* p = reinterpret_cast<const T*>(from);
    a0 = hn::LoadU(d, p), a1 = hn::LoadU(d, p + n), a2 = a0, a3 = a1;
    if constexpr (kVectors == 4) a2 = hn::LoadU(d, p + 2 * n), a3 = hn::LoadU(d, p + 3 * n);
  }

  static HWY_INLINE void store(uint8_t* to, bool stream, V a0, V a1, V a2, V a3) {
    const D d;
    const size_t n = hn::Lanes(d);
    T* p = reinterpret_cast<T*>(to);
    storeVector(d, p, stream, a0);
    storeVector(d, p + n, stream, a1);
    if constexpr (kVectors == 4) storeVector(d, p + 2 * n, stream, a2);
    if constexpr (kVectors == 4) storeVector(d, p + 3 * n, stream, a3);
  }
};

}  // namespace

void fillIntegers(KernelTable& table) {
  fillRow<Integer<int8_t>>(table, DataType::kInt8);
  fillRow<Integer<uint8_t>>(table, DataType::kUint8);
  fillRow<Integer<int32_t>>(table, DataType::kInt32);
  fillRow<Integer<uint32_t>>(table, DataType::kUint32);
  fillRow<Integer<int64_t>>(table, DataType::kInt64);
  fillRow<Integer<uint64_t>>(table, DataType::kUint64);
}

}  // namespace bps::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
