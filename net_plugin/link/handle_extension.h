// What a handle says beside the address and token of the TCP transport: the door for callers on the same machine. It
// stands in the handle's last bytes, which TCP leaves zero.
#pragma once
#include <cstdint>
#include <optional>

#include "net_plugin/tcp/wire.h"

namespace bps::plugin::link {

void writeShmExtension(tcp::HandleBytes& handle, uint64_t socketId);
// Takes any bytes; nothing when they name no door.
std::optional<uint64_t> readShmExtension(std::span<const uint8_t> handle);

}  // namespace bps::plugin::link
