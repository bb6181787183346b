#include "src/control/unique_id.h"

#include <arpa/inet.h>

#include <algorithm>

#include "src/base/format.h"
#include "src/base/io/host_lookup.h"
#include "src/control/keys/crypto.h"
#include "src/control/keys/key_file.h"
#include "src/control/rendezvous/rendezvous_server.h"

namespace bps {
namespace {

constexpr uint32_t kMagic = 0x44737062;  // "bpsD"
constexpr uint8_t kVersion = 1;
constexpr size_t kChecksumBytes = 8;
constexpr size_t kBodyBytes = kUniqueIdBytes - kChecksumBytes;

// The checksum detects accidents, for example a unique id that was not copied completely. The key, not the checksum,
// protects against attacks.
void checksum(std::span<const uint8_t> body, std::span<uint8_t> out) {
  const Key sum = deriveKey("unique id checksum", body);
  std::copy_n(sum.begin(), out.size(), out.begin());
}

Result<Key> keyFromFile(const Env& env, std::string_view use) {
  if (!env.auth) return Key{};
  if (env.keyFile.empty())
    return failure(
        Code::kInvalidUsage,
        "no key for {}: set BPS_KEY_FILE to a file of at least {} bytes, the same everywhere, or BPS_AUTH=off", use,
        kMinKeyFileBytes);
  return deriveKey(use, BPS_TRY(readKeyFile(env.keyFile, env.keyFileShared)));
}

// On many machines /etc/hosts maps the machine's own name to a loopback address (127.0.1.1) that other machines cannot
// reach. If BPS_ROOT is such a name, rank 0 listens on all addresses, so that other machines can connect. Numeric
// loopback addresses and names that contain "localhost" are not changed.
Address reachable(const Address& address, const std::string& host) {
  in_addr numbers{};
  const bool meant = host.find("localhost") != std::string::npos || host.find(':') != std::string::npos ||
                     ::inet_aton(host.c_str(), &numbers) != 0;
  return address.isLoopback() && !meant ? address.any() : address;
}

Result<UniqueId> atRoot(const Env& env) {
  Result<HostPort> where = parseHostPort(env.root, 0);
  if (!where.ok()) return std::move(where).status().within("BPS_ROOT");
  const auto patience = std::chrono::milliseconds(static_cast<int64_t>(env.timeout.value * 1000));
  const HostPort root = std::move(where).value();
  Result<std::vector<Address>> addresses = resolve(root, Deadline::in(patience));
  if (!addresses.ok()) return std::move(addresses).status().within("BPS_ROOT=" + env.root);
  UniqueId id;
  id.kind = UniqueId::Kind::kHub;
  id.address = reachable(std::move(addresses).value().front(), root.host);
  id.key = BPS_TRY(keyFromFile(env, "the rendezvous at BPS_ROOT"));
  return id;
}

}  // namespace

std::array<uint8_t, kUniqueIdBytes> UniqueId::bytes() const {
  WireWriter out;
  out.put(kMagic).put(kVersion).put(kind).put(encode(RendezvousReply{address})).put(std::span<const uint8_t>(key));
  auto all = out.padded<kUniqueIdBytes>();
  checksum(std::span(all).first(kBodyBytes), std::span(all).subspan(kBodyBytes));
  return all;
}

Result<UniqueId> UniqueId::parse(std::span<const uint8_t, kUniqueIdBytes> bytes) {
  WireReader in(bytes.first(kBodyBytes));
  const auto magic = in.get<uint32_t>();
  const auto version = in.get<uint8_t>();
  if (magic != kMagic) return Status(Code::kInvalidArgument, "the unique id was not made by bpsGetUniqueId");
  if (version != kVersion)
    return failure(Code::kInvalidArgument, "the unique id has version {}, this side speaks {}; rebuild one side",
                   version, kVersion);
  std::array<uint8_t, kChecksumBytes> sum{};
  checksum(bytes.first(kBodyBytes), sum);
  if (!std::equal(sum.begin(), sum.end(), bytes.end() - kChecksumBytes))
    return Status(Code::kInvalidArgument, "the unique id is damaged: its checksum does not match");
  UniqueId id;
  id.kind = in.get<Kind>();
  Result<RendezvousReply> where = decode<RendezvousReply>(in.getBytes());
  const auto key = in.getBytes();
  const bool known = id.kind == Kind::kRendezvous || id.kind == Kind::kHub;
  if (in.truncated() || !known || !where.ok() || key.size() != id.key.size())
    return Status(Code::kInvalidArgument, "the unique id is damaged");
  id.address = std::move(where).value().hub;
  if (id.address.length() == 0) return Status(Code::kInvalidArgument, "the unique id has no address");
  std::copy(key.begin(), key.end(), id.key.begin());
  return id;
}

Result<UniqueId> UniqueId::create(const Env& env) {
  if (env.root.empty()) return createHere(env);
  BPS_TRY(cryptoInit());
  return atRoot(env);
}

Result<UniqueId> UniqueId::createHere(const Env& env) {
  BPS_TRY(cryptoInit());
  UniqueId id;
  id.kind = Kind::kRendezvous;
  randomBytes(id.key);
  id.address = BPS_TRY(startRendezvous(env, id.key));
  return id;
}

Result<Key> serverKey(const Env& env) { return keyFromFile(env, "the summation servers"); }
Result<Key> probeKey(const Env& env) { return keyFromFile(env, "bps-topo probe"); }

}  // namespace bps
