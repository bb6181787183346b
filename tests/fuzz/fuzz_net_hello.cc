// The first bytes of a stranger's connection: any bytes are refused or are the hello with our token.
#include <algorithm>
#include <cstdlib>

#include "net_plugin/tcp/wire.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace bps::plugin::tcp;
  Token token{};
  std::copy_n(data, std::min(size, token.size()), token.begin());
  const std::span<const uint8_t> hello = std::span(data, size).subspan(std::min(size, token.size()));
  if (!checkHello(hello, token).ok()) return 0;
  const HelloBytes right = encodeHello(token, Carrier::kStream);
  if (!std::equal(right.begin(), right.begin() + 24, hello.begin())) std::abort();
  return 0;
}
