// Fuzzes the reader of safetensors files. The reader must refuse the file, or the file's tensors must cover its data
// exactly.
#include <cstdlib>

#include "perf/workload/model/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace bps::perf;
  if (size < kLengthBytes) return 0;
  const auto start = std::span(data, size).first<kLengthBytes>();
  auto length = headerLength(start, size);
  if (!length.ok()) return 0;
  const uint64_t headerBytes = std::move(length).value();
  const uint64_t dataBytes = size - kLengthBytes - headerBytes;
  const char* header = reinterpret_cast<const char*>(data) + kLengthBytes;
  auto parsed = parseHeader({header, headerBytes}, dataBytes);
  if (!parsed.ok()) return 0;
  std::vector<TensorInfo> tensors = std::move(parsed).value();
  uint64_t end = 0;
  for (const TensorInfo& tensor : tensors) {
    if (tensor.begin != end || tensor.end < tensor.begin) std::abort();
    end = tensor.end;
  }
  if (end != dataBytes) std::abort();
  const std::string again = makeHeader(tensors);  // the reader accepts a header that was written from its own result
  if (!parseHeader(std::string_view(again).substr(kLengthBytes), dataBytes).ok()) std::abort();
  return 0;
}
