// Input: reads the bytes of a fuzzer's input one after the other.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

namespace bps::fuzz {

inline void require(bool holds) {
  if (!holds) std::abort();
}

class Input {
 public:
  Input(const uint8_t* data, size_t size) : rest_(data, size) {}
  bool empty() const { return rest_.empty(); }
  std::span<const uint8_t> rest() const { return rest_; }
  // Takes up to `count` bytes from the front of the input.
  std::span<const uint8_t> take(size_t count) {
    const std::span<const uint8_t> taken = rest_.first(std::min(count, rest_.size()));
    rest_ = rest_.subspan(taken.size());
    return taken;
  }
  // Takes one byte, or returns 0 at the end of the input.
  uint8_t byte() {
    const std::span<const uint8_t> one = take(1);
    return one.empty() ? uint8_t{0} : one.front();
  }
  uint64_t wide(size_t bytes) {
    uint64_t value = 0;
    for (const uint8_t byte : take(bytes)) value = value << 8 | byte;
    return value;
  }
  uint32_t number(uint32_t below) { return byte() % below; }
  // Returns mostly small numbers and sometimes a large one.
  uint32_t any() {
    const uint32_t value = byte();
    return value < 250 ? value : value * 0x01010101U;
  }
  std::vector<uint8_t> blob() {
    const std::span<const uint8_t> bytes = take(byte());
    return {bytes.begin(), bytes.end()};
  }
  std::vector<std::vector<uint8_t>> blobs() {
    std::vector<std::vector<uint8_t>> all(number(6));
    for (std::vector<uint8_t>& one : all) one = blob();
    return all;
  }

 private:
  std::span<const uint8_t> rest_;
};

}  // namespace bps::fuzz
