// Compares the scalar arithmetic of each type with values that the test computes in another way. kernels_test.cc
// compares all other kernels with the scalar kernels.
#include "cpu_reduce/element.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace bps::cpu {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

struct Format {
  int exponent, mantissa;
  uint32_t codes;  // codes of finite positive values are 0 to codes - 1
  bool infinity;   // if true, the code `codes` is infinity
  bool saturates;
};

// Returns the value of the code of a finite positive number, computed from the definition of the format.
double valueOf(const Format& f, uint32_t code) {
  int bias = (1 << (f.exponent - 1)) - 1;
  int field = static_cast<int>(code >> f.mantissa);
  double fraction = std::ldexp(static_cast<double>(code & ((1U << f.mantissa) - 1)), -f.mantissa);
  return field == 0 ? std::ldexp(fraction, 1 - bias) : std::ldexp(1 + fraction, field - bias);
}

template <class Element>
void checkWiden(const Format& f) {
  uint32_t sign = 1U << (f.exponent + f.mantissa);
  for (uint32_t code = 0; code < sign; code++) {
    float plus = Element::widen(static_cast<typename Element::Bits>(code));
    float minus = Element::widen(static_cast<typename Element::Bits>(code | sign));
    if (code < f.codes) {
      ASSERT_EQ(plus, static_cast<float>(valueOf(f, code))) << code;
      ASSERT_EQ(std::signbit(plus), false);
      ASSERT_EQ(minus, -plus);
      ASSERT_EQ(std::signbit(minus), true) << code;
    } else if (code == f.codes && f.infinity) {
      ASSERT_EQ(plus, kInf);
      ASSERT_EQ(minus, -kInf);
    } else {
      ASSERT_TRUE(std::isnan(plus)) << code;
      ASSERT_TRUE(std::isnan(minus)) << code;
    }
  }
}

template <class Element>
void expectCode(float value, uint32_t code, const Format& f) {
  uint32_t sign = 1U << (f.exponent + f.mantissa);
  ASSERT_EQ(Element::round(value), code) << value;
  ASSERT_EQ(Element::round(-value), code | sign) << value;
}

// Tests round() at every value of the format, at every midpoint between two neighbouring values, and at the floats
// beside each midpoint.
template <class Element>
void checkRound(const Format& f) {
  for (uint32_t code = 0; code + 1 < f.codes; code++) {
    float exact = static_cast<float>(valueOf(f, code));
    float middle = static_cast<float>((valueOf(f, code) + valueOf(f, code + 1)) / 2);
    expectCode<Element>(exact, code, f);
    expectCode<Element>(std::nextafter(middle, 0.0F), code, f);
    expectCode<Element>(middle, code + (code & 1), f);
    expectCode<Element>(std::nextafter(middle, kInf), code + 1, f);
  }
  float most = static_cast<float>(valueOf(f, f.codes - 1));
  float beyond = static_cast<float>(valueOf(f, f.codes));  // the value that the next code would have
  float middle = (most + beyond) / 2;
  uint32_t over = f.saturates ? f.codes - 1 : f.codes;
  expectCode<Element>(most, f.codes - 1, f);
  if (std::isfinite(middle)) {
    expectCode<Element>(std::nextafter(middle, 0.0F), f.codes - 1, f);
    expectCode<Element>(middle, over, f);
  }
  expectCode<Element>(std::numeric_limits<float>::max(), over, f);
  expectCode<Element>(kInf, over, f);
  expectCode<Element>(std::numeric_limits<float>::denorm_min(), 0, f);
}

constexpr Format kFloat16Format{5, 10, 0x7c00, true, false};
constexpr Format kE4m3Format{4, 3, 0x7f, false, true};
constexpr Format kE5m2Format{5, 2, 0x7c, true, true};

TEST(Element, SmallFloatsWidenExactly) {
  checkWiden<Float16>(kFloat16Format);
  checkWiden<Float8e4m3>(kE4m3Format);
  checkWiden<Float8e5m2>(kE5m2Format);
  checkWiden<Bfloat16>({8, 7, 0x7f80, true, false});
}

TEST(Element, SmallFloatsRoundToNearestEven) {
  checkRound<Float16>(kFloat16Format);
  checkRound<Float8e4m3>(kE4m3Format);
  checkRound<Float8e5m2>(kE5m2Format);
}

TEST(Element, Bfloat16RoundsToNearestEven) {
  for (uint32_t code = 0; code < 0x7f80; code++) {
    uint32_t below = code << 16;
    ASSERT_EQ(Bfloat16::round(std::bit_cast<float>(below | 0x7fff)), code);
    ASSERT_EQ(Bfloat16::round(std::bit_cast<float>(below | 0x8000)), code + (code & 1));
    ASSERT_EQ(Bfloat16::round(std::bit_cast<float>(below | 0x8001 | 0x80000000)), (code + 1) | 0x8000);
  }
  EXPECT_EQ(Bfloat16::round(kInf), 0x7f80);
}

TEST(Element, Float8SaturatesAsCuda) {
  EXPECT_EQ(Float8e4m3::round(464.0F), 0x7e);
  EXPECT_EQ(Float8e4m3::round(1e9F), 0x7e);
  EXPECT_EQ(Float8e4m3::round(-kInf), 0xfe);
  EXPECT_EQ(Float8e5m2::round(61440.0F), 0x7b);
  EXPECT_EQ(Float8e5m2::round(-kInf), 0xfb);
  EXPECT_EQ(Float8e4m3::round(0x1p-10F), 0);  // half of the least denormal is a tie and rounds to zero
  EXPECT_EQ(Float8e4m3::round(-0x1p-10F), 0x80);
  EXPECT_EQ(Float8e4m3::round(0x1.8p-10F), 1);
}

TEST(Element, NaNIsCanonical) {
  for (uint32_t bits : {0x7fc00000U, 0xffc00000U, 0x7f800001U, 0xffffffffU}) {
    float nan = std::bit_cast<float>(bits);
    EXPECT_EQ(Float16::round(nan), 0x7e00);
    EXPECT_EQ(Bfloat16::round(nan), 0x7fc0);
    EXPECT_EQ(Float8e4m3::round(nan), 0x7f);
    EXPECT_EQ(Float8e5m2::round(nan), 0x7f);
    EXPECT_EQ(Float32::round(nan), 0x7fc00000U);
  }
  EXPECT_EQ(Float64::round(-std::numeric_limits<double>::quiet_NaN()), 0x7ff8000000000000U);
}

uint32_t maxBits(float a, float b) { return Float32::round(combine<FoldOp::kMax>(a, b)); }
uint32_t minBits(float a, float b) { return Float32::round(combine<FoldOp::kMin>(a, b)); }

TEST(Element, MaxAndMinOfZerosAndNaN) {
  constexpr uint32_t kOne = 0x3f800000;
  for (bool swap : {false, true}) {
    auto max = [&](float a, float b) { return swap ? maxBits(b, a) : maxBits(a, b); };
    auto min = [&](float a, float b) { return swap ? minBits(b, a) : minBits(a, b); };
    EXPECT_EQ(max(0.0F, -0.0F), 0U);
    EXPECT_EQ(min(0.0F, -0.0F), 0x80000000U);
    EXPECT_EQ(max(kNaN, 1.0F), kOne);
    EXPECT_EQ(min(kNaN, 1.0F), kOne);
    EXPECT_EQ(max(-kNaN, -kInf), 0xff800000U);
    EXPECT_EQ(max(kInf, 1.0F), 0x7f800000U);
    EXPECT_EQ(min(-kInf, 1.0F), 0xff800000U);
    EXPECT_EQ(max(-1.0F, 1.0F), kOne);
    EXPECT_EQ(max(-kNaN, kNaN), 0x7fc00000U);
    EXPECT_EQ(min(kNaN, -kNaN), 0x7fc00000U);
  }
  EXPECT_EQ(maxBits(-0.0F, -0.0F), 0x80000000U);
}

TEST(Element, IntegersWrap) {
  EXPECT_EQ(combine<FoldOp::kSum>(int8_t{127}, int8_t{1}), -128);
  EXPECT_EQ(combine<FoldOp::kSum>(uint8_t{255}, uint8_t{2}), 1);
  EXPECT_EQ(combine<FoldOp::kProd>(int8_t{-128}, int8_t{-1}), -128);
  EXPECT_EQ(combine<FoldOp::kProd>(int32_t{1} << 30, int32_t{2}), std::numeric_limits<int32_t>::min());
  EXPECT_EQ(combine<FoldOp::kSum>(std::numeric_limits<int64_t>::max(), int64_t{1}),
            std::numeric_limits<int64_t>::min());
  EXPECT_EQ(combine<FoldOp::kMax>(int8_t{-1}, int8_t{1}), 1);
  EXPECT_EQ(combine<FoldOp::kMax>(uint8_t{255}, uint8_t{1}), 255);
}

TEST(Element, IntegersDivideTowardsZero) {
  EXPECT_EQ(divide(int8_t{-7}, 2), -3);
  EXPECT_EQ(divide(int32_t{7}, 2), 3);
  EXPECT_EQ(divide(uint8_t{255}, 16), 15);
  EXPECT_EQ(divide(int8_t{-128}, 1000), 0);
  EXPECT_EQ(divide(std::numeric_limits<int64_t>::min(), uint64_t{1} << 63), -1);
  EXPECT_EQ(divide(std::numeric_limits<int64_t>::min(), 2), std::numeric_limits<int64_t>::min() / 2);
  EXPECT_EQ(divide(~uint64_t{0}, ~uint64_t{0}), 1U);
}

}  // namespace
}  // namespace bps::cpu
