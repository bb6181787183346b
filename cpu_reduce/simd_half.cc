// The SIMD kernels for float16 and bfloat16.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_reduce/simd_half.cc"
#include "cpu_reduce/highway.h"
#include "cpu_reduce/small_float-inl.h"

#if HWY_TARGET != HWY_EMU128 && HWY_TARGET != HWY_SCALAR
HWY_BEFORE_NAMESPACE();
namespace bps::cpu::HWY_NAMESPACE {
namespace {

// Each 32-bit SIMD lane has two 16-bit elements. a0 and a2 hold the lower element of each lane, a1
// and a3 the upper element.
struct Bfloat16 {
  using D = hn::ScalableTag<float>;
  using V = hn::Vec<D>;
  static constexpr size_t kBytes = 2;
  static constexpr size_t kVectors = 4;
  static constexpr PrefetchMode kPrefetch = PrefetchMode::kFromCaches;

  static HWY_INLINE void load(const uint8_t* from, V& a0, V& a1, V& a2, V& a3) {
    const D d;
    const hn::RebindToUnsigned<D> du;
    const uint32_t* p = reinterpret_cast<const uint32_t*>(from);
    const auto upper = hn::Set(du, 0xffff0000U);
    const auto w0 = hn::LoadU(du, p);
    const auto w1 = hn::LoadU(du, p + hn::Lanes(du));
    a0 = hn::BitCast(d, hn::ShiftLeft<16>(w0)), a1 = hn::BitCast(d, hn::And(w0, upper));
    a2 = hn::BitCast(d, hn::ShiftLeft<16>(w1)), a3 = hn::BitCast(d, hn::And(w1, upper));
  }

  // Rounds to nearest even. If the last kept bit is 1, the function adds half a unit of that bit.
  // Otherwise it adds slightly less than half a unit. The upper 16 bits of each lane of the result
  // are the bfloat16.
  static HWY_INLINE hn::Vec<hn::RebindToUnsigned<D>> roundToCode(V value) {
    const hn::RebindToUnsigned<D> du;
    const auto bits = hn::BitCast(du, value);
    const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1U));
    return hn::Add(hn::Add(bits, hn::Set(du, 0x7fffU)), odd);
  }

  // Puts the upper half of each lane of `lower` below the upper half of the same lane of `upper`.
  static HWY_INLINE hn::Vec<hn::RebindToUnsigned<D>> joined(hn::Vec<hn::RebindToUnsigned<D>> lower,
                                                            hn::Vec<hn::RebindToUnsigned<D>> upper) {
    const hn::RebindToUnsigned<D> du;
    const hn::Repartition<uint16_t, D> d16;
    const auto moved = hn::BitCast(d16, hn::ShiftRight<16>(lower));
    return hn::BitCast(du, hn::OddEven(hn::BitCast(d16, upper), moved));
  }

  static HWY_INLINE void store(uint8_t* to, bool stream, V a0, V a1, V a2, V a3) {
    const hn::RebindToUnsigned<D> du;
    uint32_t* p = reinterpret_cast<uint32_t*>(to);
    canonicalGroup(D(), a0, a1, a2, a3);
    const auto w0 = joined(roundToCode(a0), roundToCode(a1));
    const auto w1 = joined(roundToCode(a2), roundToCode(a3));
    storeVector(du, p, stream, w0);
    storeVector(du, p + hn::Lanes(du), stream, w1);
  }
};

#if HWY_TARGET == HWY_SSE4
// SSE4 has no instructions that convert float16. a0 to a3 hold the elements in the same order as in
// Bfloat16.
struct Float16 {
  using D = hn::ScalableTag<float>;
  using V = hn::Vec<D>;
  using Format = SmallFormat<5, 10, 0x47800000, 0x47c00000>;
  static constexpr size_t kBytes = 2;
  static constexpr size_t kVectors = 4;
  static constexpr PrefetchMode kPrefetch = PrefetchMode::kFromCaches;

  static HWY_INLINE void load(const uint8_t* from, V& a0, V& a1, V& a2, V& a3) {
    const hn::RebindToUnsigned<D> du;
    const uint32_t* p = reinterpret_cast<const uint32_t*>(from);
    const auto w0 = hn::LoadU(du, p);
    const auto w1 = hn::LoadU(du, p + hn::Lanes(du));
    a0 = widenIeee<Format>(hn::ShiftLeft<16>(w0)), a1 = widenIeee<Format>(w0);
    a2 = widenIeee<Format>(hn::ShiftLeft<16>(w1)), a3 = widenIeee<Format>(w1);
  }

  static HWY_INLINE void store(uint8_t* to, bool stream, V a0, V a1, V a2, V a3) {
    const hn::RebindToUnsigned<D> du;
    uint32_t* p = reinterpret_cast<uint32_t*>(to);
    capGroup<Format>(a0, a1, a2, a3);
    const auto w0 = hn::Or(roundSmall<Format>(a0), hn::ShiftLeft<16>(roundSmall<Format>(a1)));
    const auto w1 = hn::Or(roundSmall<Format>(a2), hn::ShiftLeft<16>(roundSmall<Format>(a3)));
    storeVector(du, p, stream, w0);
    storeVector(du, p + hn::Lanes(du), stream, w1);
  }
};
#else
// The CPU's conversion instructions round to nearest even and handle denormals and infinities.
struct Float16 {
  using D = hn::ScalableTag<float>;
  using D16 = hn::Rebind<hwy::float16_t, D>;
  using V = hn::Vec<D>;
  static constexpr size_t kBytes = 2;
  static constexpr size_t kVectors = 4;
  static constexpr PrefetchMode kPrefetch = PrefetchMode::kFromCaches;

#if HWY_TARGET == HWY_AVX3
  // Computes a + b as the fused multiply-add 1 * b + a, which has the same result. Zen 5 converts
  // float16 on its addition ports. The fused multiply-add uses the multiplication ports, which are
  // otherwise idle. Many CPUs multiply denormal floats slowly, but widened float16 values are never
  // denormal floats. Only float16 uses this method.
  static HWY_INLINE V add(V a, V b) { return hn::MulAdd(b, hn::Set(D(), 1.0F), a); }
#endif

  static HWY_INLINE V widenHalves(const uint8_t* from, size_t index) {
    const hn::Rebind<uint16_t, D> du16;
    const uint16_t* p = reinterpret_cast<const uint16_t*>(from) + index;
    return hn::PromoteTo(D(), hn::BitCast(D16(), hn::LoadU(du16, p)));
  }

  static HWY_INLINE void load(const uint8_t* from, V& a0, V& a1, V& a2, V& a3) {
    const size_t n = hn::Lanes(D());
    a0 = widenHalves(from, 0), a1 = widenHalves(from, n), a2 = widenHalves(from, 2 * n), a3 = widenHalves(from, 3 * n);
  }

  static HWY_INLINE void put(uint8_t* to, size_t index, bool stream, V value) {
    const hn::Rebind<uint16_t, D> du16;
    uint16_t* p = reinterpret_cast<uint16_t*>(to) + index;
    storeVector(du16, p, stream, hn::BitCast(du16, hn::DemoteTo(D16(), value)));
  }

  static HWY_INLINE void store(uint8_t* to, bool stream, V a0, V a1, V a2, V a3) {
    const size_t n = hn::Lanes(D());
    canonicalGroup(D(), a0, a1, a2, a3);
    put(to, 0, stream, a0), put(to, n, stream, a1), put(to, 2 * n, stream, a2), put(to, 3 * n, stream, a3);
  }
};
#endif

}  // namespace

void fillHalves(KernelTable& table) {
  fillRow<Float16>(table, DataType::kFloat16);
  fillRow<Bfloat16>(table, DataType::kBfloat16);
}

}  // namespace bps::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
