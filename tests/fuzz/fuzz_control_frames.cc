// Fuzzes the parser of control frames with a stream that arrives in pieces. The first byte of the input selects the
// size of the pieces, and whether frames carry authentication tags. The parser's memory must grow only with the bytes
// that it has received.
#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "src/wire/frame.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  bps::FrameReader reader;
  if ((data[0] & 1) != 0) reader.setLimit(bps::kMaxFrameBytes);
  if ((data[0] & 2) != 0) reader.expectTags([](auto) { return bps::Status(); });
  const size_t piece = data[0] / 4 + 1U;
  for (size_t at = 1; at < size;) {
    const auto room = reader.room();
    if (room.empty() || room.size() > size + (1U << 20)) std::abort();
    const size_t count = std::min({room.size(), piece, size - at});
    std::copy_n(data + at, count, room.begin());
    at += count;
    auto filled = reader.filled(count);
    if (!filled.ok()) return 0;
    const auto frame = std::move(filled).value();
    if (frame && frame->payload.size() != frame->header.bytes) std::abort();
  }
  return 0;
}
