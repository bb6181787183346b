// Reads and writes files of named tensors in the safetensors format. A file holds 8 bytes with the
// length of the header (little endian), the header (a JSON object), and the tensors' bytes.
//
// The reader is strict. It rejects everything that the format forbids: duplicate names or keys,
// holes, overlaps, trailing bytes, and a size that does not match shape and type. The reader also
// rejects an offset that is not a multiple of the element size. A failure is kSystem for an
// operating system error, and kInvalidArgument otherwise. The message names the file, the tensor
// and the problem.
#pragma once
#include <bps/bps.h>

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/status.h"

namespace bps::perf {

struct TensorInfo {
  std::string name;
  bpsDataType_t type = bpsFloat32;
  std::vector<uint64_t> shape;
  uint64_t begin = 0, end = 0;  // range of bytes in the file's data

  uint64_t bytes() const { return end - begin; }
};

inline constexpr size_t kLengthBytes = 8;
inline constexpr uint64_t kMaxHeaderBytes = 100'000'000;

// Returns the header's length from the file's first bytes. Fails if the length is more than the
// file holds or more than kMaxHeaderBytes.
Result<uint64_t> headerLength(std::span<const uint8_t, kLengthBytes> start, uint64_t fileBytes);

// Returns the tensors in the order of their data. Fails unless the tensors fill exactly `dataBytes`
// bytes.
Result<std::vector<TensorInfo>> parseHeader(std::string_view header, uint64_t dataBytes);

// Returns the start of a file of these tensors: the length and the header, padded with spaces to a
// multiple of 8 bytes. Sets `begin` and `end` of each tensor from its shape and type, in the given
// order.
std::string makeHeader(std::vector<TensorInfo>& tensors);

// Returns the format's name of a type, such as "F32".
std::string_view formatName(bpsDataType_t type);

struct TensorFile {
  std::vector<TensorInfo> tensors;
  uint64_t dataBytes = 0;
  std::unique_ptr<uint8_t[]> data;

  std::span<uint8_t> dataOf(const TensorInfo& tensor) { return {data.get() + tensor.begin, tensor.bytes()}; }
};

Result<TensorFile> readTensors(const std::string& path);
// `data` holds the tensors' bytes one after another, in the order of `tensors`.
Status writeTensors(const std::string& path, std::vector<TensorInfo> tensors, std::span<const uint8_t> data);

}  // namespace bps::perf
