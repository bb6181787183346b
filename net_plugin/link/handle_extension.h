// The shared memory extension of a handle. It names the listener's unix socket for peers on the
// same machine. The extension uses the last bytes of the handle, which the TCP transport leaves
// zero.
#pragma once
#include <cstdint>
#include <optional>

#include "net_plugin/tcp/wire.h"

namespace bps::plugin::link {

void writeShmExtension(tcp::HandleBytes& handle, uint64_t socketId);
// Reads the extension and is safe for arbitrary bytes. Returns nullopt if the handle contains no
// socket id.
std::optional<uint64_t> readShmExtension(std::span<const uint8_t> handle);

}  // namespace bps::plugin::link
