// WireWriter and WireReader: serialize little-endian fields into a byte vector and parse them back.
//
// Every read is bounds-checked. A read past the end returns zero or an empty string and marks the
// reader truncated. The caller can therefore read all fields and then check finish() once. The
// reader never allocates more bytes than it was given. Not thread-safe.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "src/base/status.h"

namespace bps {

using Blob = std::vector<uint8_t>;

class WireWriter {
 public:
  template <class T>
  requires(std::is_integral_v<T> || std::is_enum_v<T>) WireWriter& put(T value) {
    auto bits = static_cast<uint64_t>(value);
    for (size_t i = 0; i < sizeof(T); ++i) bytes_.push_back(static_cast<uint8_t>(bits >> (8 * i)));
    return *this;
  }
  WireWriter& put(double value) {
    uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    return put(bits);
  }
  // Writes the length (32 bits), then the bytes.
  WireWriter& put(std::span<const uint8_t> value) { return put(static_cast<uint32_t>(value.size())).putRaw(value); }
  WireWriter& put(const Blob& value) { return put(std::span<const uint8_t>(value)); }
  WireWriter& put(std::string_view value) {
    return put(std::span(reinterpret_cast<const uint8_t*>(value.data()), value.size()));
  }
  WireWriter& put(const std::string& value) { return put(std::string_view(value)); }
  WireWriter& put(const char* value) { return put(std::string_view(value)); }
  // Writes the bytes without their number.
  WireWriter& putRaw(std::span<const uint8_t> value) {
    bytes_.insert(bytes_.end(), value.begin(), value.end());
    return *this;
  }

  Blob take() && { return std::move(bytes_); }
  const Blob& bytes() const { return bytes_; }
  // Returns the bytes, followed by zeros up to N bytes.
  template <size_t N>
  std::array<uint8_t, N> padded() const {
    std::array<uint8_t, N> all{};
    std::copy_n(bytes_.begin(), std::min(N, bytes_.size()), all.begin());
    return all;
  }

 private:
  Blob bytes_;
};

class WireReader {
 public:
  explicit WireReader(std::span<const uint8_t> bytes) : rest_(bytes) {}

  template <class T>
  requires(std::is_integral_v<T> || std::is_enum_v<T>) T get() {
    auto field = take(sizeof(T));
    uint64_t bits = 0;
    for (size_t i = 0; i < field.size(); ++i) bits |= uint64_t{field[i]} << (8 * i);
    return static_cast<T>(bits);
  }
  double getDouble() {
    const auto bits = get<uint64_t>();
    double value = 0;
    std::memcpy(&value, &bits, sizeof value);
    return value;
  }
  template <size_t N>
  std::array<uint8_t, N> getArray() {
    std::array<uint8_t, N> value{};
    const auto field = take(N);
    std::copy(field.begin(), field.end(), value.begin());
    return value;
  }
  std::span<const uint8_t> getBytes() { return take(get<uint32_t>()); }
  std::string getString() {
    auto field = getBytes();
    return {field.begin(), field.end()};
  }
  Blob getBlob() {
    auto field = getBytes();
    return {field.begin(), field.end()};
  }
  // Reads the number of elements that follow, each of at least `minBytes`. A number that does not fit into the
  // remaining bytes counts as truncation.
  size_t getCount(size_t minBytes) {
    const auto count = get<uint32_t>();
    if (minBytes > 0 && count > rest_.size() / minBytes) {
      truncated_ = true;
      return 0;
    }
    return count;
  }

  size_t left() const { return rest_.size(); }
  bool truncated() const { return truncated_; }
  // Fails if a field was missing or if bytes are left. `what` names the message in the error.
  Status finish(const char* what) const;

 private:
  std::span<const uint8_t> take(size_t count) {
    if (count > rest_.size()) {
      truncated_ = true;
      rest_ = {};
      return {};
    }
    auto field = rest_.first(count);
    rest_ = rest_.subspan(count);
    return field;
  }
  std::span<const uint8_t> rest_;
  bool truncated_ = false;
};

}  // namespace bps
