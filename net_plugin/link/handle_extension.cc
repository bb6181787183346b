#include "net_plugin/link/handle_extension.h"

#include <algorithm>

#include "src/base/io/wire_io.h"

namespace bps::plugin::link {
namespace {

constexpr uint32_t kExtensionMagic = 0x44737062;  // "bpsD"
constexpr uint16_t kExtensionVersion = 1;
constexpr size_t kExtensionBytes = 16;  // bytes of magic, version, reserved field and socket id
constexpr size_t kExtensionOffset = abi::kHandleBytes - kExtensionBytes;

}  // namespace

void writeShmExtension(tcp::HandleBytes& handle, uint64_t socketId) {
  WireWriter writer;
  writer.put(kExtensionMagic).put(kExtensionVersion).put(uint16_t{0}).put(socketId);
  std::copy(writer.bytes().begin(), writer.bytes().end(), handle.begin() + kExtensionOffset);
}

std::optional<uint64_t> readShmExtension(std::span<const uint8_t> handle) {
  if (handle.size() != abi::kHandleBytes) return std::nullopt;
  WireReader reader(handle.subspan(kExtensionOffset));
  const auto magic = reader.get<uint32_t>();
  const auto version = reader.get<uint16_t>();
  reader.get<uint16_t>();
  const auto socketId = reader.get<uint64_t>();
  if (magic != kExtensionMagic || version != kExtensionVersion) return std::nullopt;
  return socketId;
}

}  // namespace bps::plugin::link
