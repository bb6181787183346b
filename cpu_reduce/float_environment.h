// The floating-point environment that the contract of reduce.h means: round to nearest even, denormals kept, no traps.
//
// Applications change it (flush-to-zero is common in machine learning), per thread. Where it differs, this object sets
// ours for its life and puts back the caller's.
#pragma once
#include <cstdint>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace bps::cpu {

class FloatEnvironment {
 public:
  FloatEnvironment() : saved_(read()) {
    if (differs()) write(kRequired);
  }
  ~FloatEnvironment() {
    if (differs()) write(saved_);
  }
  FloatEnvironment(const FloatEnvironment&) = delete;
  FloatEnvironment& operator=(const FloatEnvironment&) = delete;

 private:
#if defined(__x86_64__)
  using Word = unsigned;
  static constexpr Word kRequired = 0x1f80;  // all exceptions masked
  static constexpr Word kFlags = 0x003f;     // what has happened so far, not how to compute
  static Word read() { return _mm_getcsr(); }
  static void write(Word word) { _mm_setcsr(word); }
#elif defined(__aarch64__)
  using Word = uint64_t;
  static constexpr Word kRequired = 0;
  static constexpr Word kFlags = 0;
  static Word read() {
    Word word = 0;
    __asm__ volatile("mrs %0, fpcr" : "=r"(word));
    return word;
  }
  static void write(Word word) { __asm__ volatile("msr fpcr, %0" : : "r"(word)); }
#else
  using Word = int;
  static constexpr Word kRequired = 0;
  static constexpr Word kFlags = 0;
  static Word read() { return 0; }
  static void write(Word) {}
#endif

  bool differs() const { return ((saved_ ^ kRequired) & ~kFlags) != 0; }

  Word saved_;
};

}  // namespace bps::cpu
