// The header of a chunk, as any peer may send it.
#include <cstdint>
#include <cstdlib>

#include "src/wire/data_header.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  auto decoded = bps::decodeDataHeader({data, size});
  if (!decoded.ok()) return 0;
  const bps::DataHeader header = std::move(decoded).value();
  bps::DataHeaderBytes again;
  if (bps::encode(header, again) != size) std::abort();  // what is accepted has one length
  if (bps::describe(header.call).empty()) std::abort();
  return 0;
}
