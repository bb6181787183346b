// FloatEnvironment: sets the floating-point environment of the calling thread as the contract of
// reduce.h requires. The thread then rounds to nearest even, keeps denormals and raises no traps.
//
// Applications may change this environment for each thread. Machine learning often flushes
// denormals to zero. If the environment of the thread differs from the required one, the
// constructor replaces it, and the destructor restores it.
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
  static constexpr Word kFlags = 0x003f;     // sticky exception flags, which do not affect results
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
