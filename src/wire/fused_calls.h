// FusedCalls: the list of the calls that travel as one fused call (plan/fusion.h), in call order. A
// call that travels alone has an empty list.
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace bps {

class FusedCalls {
 public:
  static constexpr size_t kMaxCalls = 64;
  struct Entry {
    uint16_t count = 0;    // elements
    uint8_t distance = 0;  // number of the call minus the number of the call before it; 0 for the first call
    bool operator==(const Entry&) const = default;
  };

  FusedCalls() = default;
  // Every chunk carries a copy of its call, so a copy moves only the entries in use.
  FusedCalls(const FusedCalls& other) { copy(other); }
  FusedCalls& operator=(const FusedCalls& other) {
    if (this != &other) copy(other);
    return *this;
  }
  ~FusedCalls() = default;

  // There are fewer than kMaxCalls entries.
  void add(Entry entry) { entries_[size_++] = entry; }
  bool empty() const { return size_ == 0; }
  size_t size() const { return size_; }
  const Entry* begin() const { return entries_.data(); }
  const Entry* end() const { return entries_.data() + size_; }
  bool operator==(const FusedCalls& other) const { return std::equal(begin(), end(), other.begin(), other.end()); }

 private:
  // The local ranks share memory with such lists, and a damaged list must not overflow.
  void copy(const FusedCalls& other) {
    size_ = std::min<uint8_t>(other.size_, kMaxCalls);
    std::copy_n(other.entries_.begin(), size_, entries_.begin());
  }

  uint8_t size_ = 0;
  std::array<Entry, kMaxCalls> entries_;
};

}  // namespace bps
