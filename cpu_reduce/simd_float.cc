// The SIMD kernels for float and double.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_reduce/simd_float.cc"
#include "cpu_reduce/highway.h"
#include "cpu_reduce/simd-inl.h"

#if HWY_TARGET != HWY_EMU128 && HWY_TARGET != HWY_SCALAR
HWY_BEFORE_NAMESPACE();
namespace bps::cpu::HWY_NAMESPACE {
namespace {

template <class T>
struct Float : StoredAsIs<T> {
  using typename StoredAsIs<T>::D;
  using typename StoredAsIs<T>::V;

  // Makes `seen` a NaN if a result is a NaN. Infinities of opposite sign may also make `seen` a
  // NaN.
  static HWY_INLINE void store(uint8_t* to, bool stream, V a0, V a1, V a2, V a3, V& seen) {
    StoredAsIs<T>::store(to, stream, a0, a1, a2, a3);
    seen = hn::Add(seen, hn::Add(a0, a1));
    if constexpr (StoredAsIs<T>::kVectors == 4) seen = hn::Add(seen, hn::Add(a2, a3));
  }

  // Replaces NaNs by the canonical NaN. fixUp() is a separate pass over the results, so that no
  // group waits for a comparison.
  static void fixUp(uint8_t* to, size_t bytes, V seen) {
    const D d;
    if (HWY_LIKELY(hn::AllTrue(d, hn::Eq(seen, seen)))) return;
    T* p = reinterpret_cast<T*>(to);
    for (size_t i = 0; i < bytes / sizeof(T); i += hn::Lanes(d))
      hn::StoreU(canonical(d, hn::LoadU(d, p + i)), d, p + i);
  }
};

}  // namespace

void fillFloats(KernelTable& table) {
  fillRow<Float<float>>(table, DataType::kFloat32);
  fillRow<Float<double>>(table, DataType::kFloat64);
}

}  // namespace bps::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
