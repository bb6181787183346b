// Fuzzes the parser of the hello, the first message on an unauthenticated connection. The parser must refuse every
// message except a valid hello with the right token.
#include <algorithm>
#include <cstdlib>

#include "net_plugin/tcp/wire.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace bps::plugin::tcp;
  Token token{};
  std::copy_n(data, std::min(size, token.size()), token.begin());
  const std::span<const uint8_t> hello = std::span(data, size).subspan(std::min(size, token.size()));
  bps::Result<Hello> parsed = parseHello(hello, token);
  if (!parsed.ok()) return 0;
  const Hello authenticated = std::move(parsed).value();
  if (authenticated.index >= authenticated.sockets || authenticated.sockets > kMaxSockets) std::abort();
  if (authenticated.carrier == Carrier::kVerbs && authenticated.sockets != 1) std::abort();
  const HelloBytes right = encodeHello(token, authenticated);
  if (!std::equal(right.begin(), right.end(), hello.begin())) std::abort();
  return 0;
}
