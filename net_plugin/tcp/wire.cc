#include "net_plugin/tcp/wire.h"

#include <sodium.h>
#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "src/base/format.h"
#include "src/base/io/wire_io.h"

namespace bps::plugin::tcp {
namespace {

constexpr uint32_t kHandleMagic = 0x48737062;  // "bpsH"
constexpr uint32_t kHelloMagic = 0x43737062;   // "bpsC"
constexpr uint16_t kIpv4 = 4, kIpv6 = 6;
constexpr size_t kIpBytes = 16;  // an IPv4 address is followed by zeros

constexpr size_t kMacBytes = 16;
constexpr size_t kAuthenticatedBytes = kHelloBytes - kMacBytes;  // the bytes of a hello that the MAC covers
using Mac = std::array<uint8_t, kMacBytes>;
static_assert(kMacBytes >= crypto_generichash_BYTES_MIN && std::tuple_size_v<Token> >= crypto_generichash_KEYBYTES_MIN);

Mac macOf(std::span<const uint8_t> authenticated, const Token& token) {
  Mac mac{};
  crypto_generichash(mac.data(), mac.size(), authenticated.data(), authenticated.size(), token.data(), token.size());
  return mac;
}

Status versionMismatch(const char* what, uint16_t version) {
  return failure(Code::kRemote, "{} of version {}, this plugin speaks {}: use the same bps on both sides", what,
                 version, kWireVersion);
}

}  // namespace

HandleBytes encodeHandle(const HandleData& handle) {
  WireWriter writer;
  writer.put(kHandleMagic).put(kWireVersion);
  writer.put(handle.address.family() == AF_INET ? kIpv4 : kIpv6).put(handle.address.port());
  std::array<uint8_t, kIpBytes> ip{};
  std::copy(handle.address.ip().begin(), handle.address.ip().end(), ip.begin());
  writer.putRaw(ip).putRaw(handle.token).put(static_cast<uint16_t>(handle.sockets));
  return writer.padded<abi::kHandleBytes>();
}

Result<HandleData> parseHandle(std::span<const uint8_t> bytes) {
  WireReader reader(bytes);
  const auto magic = reader.get<uint32_t>();
  const auto version = reader.get<uint16_t>();
  const auto family = reader.get<uint16_t>();
  const auto port = reader.get<uint16_t>();
  const auto ip = reader.getArray<kIpBytes>();
  const Token token = reader.getArray<std::tuple_size_v<Token>>();
  const auto sockets = reader.get<uint16_t>();
  if (reader.truncated() || magic != kHandleMagic)
    return Status(Code::kInvalidArgument, "the handle is not from this plugin (do all sides use the same plugin?)");
  if (version != kWireVersion) return versionMismatch("handle", version);
  if ((family != kIpv4 && family != kIpv6) || port == 0)
    return Status(Code::kInvalidArgument, "handle without an address");
  if (sockets < 1 || sockets > kMaxSockets)
    return failure(Code::kInvalidArgument, "handle with {} sockets per connection, expected 1 to {}", sockets,
                   kMaxSockets);
  return HandleData{Address::of(std::span(ip).first(family == kIpv4 ? 4 : kIpBytes), port), token, sockets};
}

Status fillRandom(void* data, size_t bytes) {
  if (::getrandom(data, bytes, 0) != static_cast<ssize_t>(bytes)) return systemFailure("getrandom", errno);
  return {};
}

Result<Token> randomToken() {
  Token token{};
  BPS_TRY(fillRandom(token.data(), token.size()));
  return token;
}

// The fields of a hello are magic, version, number of sockets, index of this socket, number of the
// connection, carrier, and MAC.
HelloBytes encodeHello(const Token& token, const Hello& hello) {
  WireWriter writer;
  writer.put(kHelloMagic).put(kWireVersion);
  writer.put(static_cast<uint8_t>(hello.sockets)).put(static_cast<uint8_t>(hello.index));
  writer.put(hello.connection).put(hello.carrier);
  auto bytes = writer.padded<kHelloBytes>();
  const Mac mac = macOf(std::span(bytes).first<kAuthenticatedBytes>(), token);
  std::copy(mac.begin(), mac.end(), bytes.begin() + kAuthenticatedBytes);
  return bytes;
}

Result<Hello> parseHello(std::span<const uint8_t> bytes, const Token& token) {
  WireReader reader(bytes);
  const auto magic = reader.get<uint32_t>();
  const auto version = reader.get<uint16_t>();
  Hello hello{.sockets = reader.get<uint8_t>(), .index = reader.get<uint8_t>()};
  hello.connection = reader.get<uint64_t>();
  hello.carrier = reader.get<Carrier>();
  const Mac given = reader.getArray<kMacBytes>();
  if (reader.truncated() || magic != kHelloMagic) return Status(Code::kRemote, "the peer is not a bps net plugin");
  if (version != kWireVersion) return versionMismatch("hello", version);
  if (sodium_memcmp(given.data(), macOf(bytes.first(kAuthenticatedBytes), token).data(), kMacBytes) != 0)
    return Status(Code::kRemote, "the peer does not have this listener's handle");
  if (hello.sockets < 1 || hello.sockets > kMaxSockets || hello.index >= hello.sockets)
    return failure(Code::kRemote, "the peer's socket is {} of {}, which is out of range", hello.index, hello.sockets);
  if (hello.carrier > Carrier::kVerbs)
    return failure(Code::kRemote, "the peer requests a connection of unknown kind {}: use the same bps on both sides",
                   static_cast<unsigned>(hello.carrier));
  if (hello.carrier == Carrier::kVerbs && hello.sockets != 1)
    return failure(Code::kRemote, "the peer requests RDMA with {} sockets, expected 1", hello.sockets);
  return hello;
}

}  // namespace bps::plugin::tcp
