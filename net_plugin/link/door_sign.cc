#include "net_plugin/link/door_sign.h"

#include <algorithm>

#include "src/base/wire_io.h"

namespace bps::plugin::link {
namespace {

constexpr uint32_t kSignMagic = 0x44737062;  // "bpsD"
constexpr uint16_t kSignVersion = 1;
constexpr size_t kSignBytes = 16;  // magic, version, reserved, door
constexpr size_t kSignAt = abi::kHandleBytes - kSignBytes;

}  // namespace

void writeDoor(tcp::HandleBytes& handle, uint64_t door) {
  WireWriter writer;
  writer.put(kSignMagic).put(kSignVersion).put(uint16_t{0}).put(door);
  std::copy(writer.bytes().begin(), writer.bytes().end(), handle.begin() + kSignAt);
}

std::optional<uint64_t> readDoor(std::span<const uint8_t> handle) {
  if (handle.size() != abi::kHandleBytes) return std::nullopt;
  WireReader reader(handle.subspan(kSignAt));
  const auto magic = reader.get<uint32_t>();
  const auto version = reader.get<uint16_t>();
  reader.get<uint16_t>();
  const auto door = reader.get<uint64_t>();
  if (magic != kSignMagic || version != kSignVersion) return std::nullopt;
  return door;
}

}  // namespace bps::plugin::link
