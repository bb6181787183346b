// Fuzzes the decoder of chunk headers. The decoder gets each input twice: unchanged, and followed by its correct
// checksum, which a fuzzer cannot find.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "src/base/checksum/crc32c.h"
#include "src/wire/data_header.h"

namespace {

void decode(std::span<const uint8_t> bytes) {
  auto decoded = bps::decodeDataHeader(bytes);
  if (!decoded.ok()) return;
  const bps::DataHeader header = std::move(decoded).value();
  std::vector<uint8_t> again(bps::headerBytesWithClock(header.clock ? header.clock->machines.size() : 0));
  if (bps::encode(header, again) != bytes.size()) std::abort();  // each header has exactly one valid length
  if (!std::equal(bytes.begin(), bytes.end(), again.begin())) std::abort();
  if (bps::describe(header.call).empty()) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  decode({data, size});
  std::vector<uint8_t> sealed(data, data + size);
  const uint32_t check = bps::crc32c(data, size);
  sealed.resize(size + sizeof check);
  std::memcpy(sealed.data() + size, &check, sizeof check);
  decode(sealed);
  return 0;
}
