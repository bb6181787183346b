// Fuzzes the parser of connection handles, which peers send through the control plane. The parser must refuse the
// bytes, or the parsed handle must encode to the same handle again.
#include <cstdlib>

#include "net_plugin/tcp/wire.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace bps::plugin::tcp;
  bps::Result<HandleData> parsed = parseHandle({data, size});
  if (!parsed.ok()) return 0;
  const HandleData handle = std::move(parsed).value();
  bps::Result<HandleData> again = parseHandle(encodeHandle(handle));
  if (!again.ok()) std::abort();
  const HandleData same = std::move(again).value();
  if (same.token != handle.token || same.sockets != handle.sockets || same.address.text() != handle.address.text())
    std::abort();
  return 0;
}
