// The socket options of a connection. docs/transport.md has the measurements that justify these
// options.
#pragma once
#include "net_plugin/tcp/tcp_interface.h"

namespace bps::plugin::tcp {

// `sockets` is the number of sockets of the connection. Options that the kernel does not support are skipped.
void setOptions(int fd, size_t sockets, PeerTimeout peerTimeout);

}  // namespace bps::plugin::tcp
