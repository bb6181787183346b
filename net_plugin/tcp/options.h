// The socket options of a connection, and why each: docs/transport.md has the measurements.
#pragma once
#include "net_plugin/tcp/tcp_interface.h"

namespace bps::plugin::tcp {

// `sockets`: of the connection that this one belongs to. An option that the kernel does not take is done without.
void setOptions(int fd, size_t sockets, PeerTimeout peerTimeout);

}  // namespace bps::plugin::tcp
