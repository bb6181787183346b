// Congestion control of connections within one machine, which go through lo. These functions replace BBR by Reno there.
//
// On lo no packets are lost and there is no bottleneck rate. If BBR is the kernel's default, it estimates a rate from
// small messages and then limits large messages to it (docs/transport.md). Other algorithms do not pace and are kept. A
// socket that has been paced stays paced after a change, so the algorithm is set before the connection exists: a
// connecting socket gets it from the address of the peer, an accepted socket inherits it from the listener.
#pragma once
#include <string>

#include "src/base/io/socket.h"

namespace bps::plugin::tcp {

// Call it before the connect. Disables pacing if the peer is on this machine.
void disablePacingForPeer(int fd, const Address& peer);
// Disables pacing for accepted sockets. Returns the previous algorithm, or empty text if nothing was changed, because
// the default does not pace or could not be restored later.
std::string disablePacingOnListener(int listenFd);
// Restores the algorithm that disablePacingOnListener() returned on an accepted socket if the peer is on another
// machine.
void restorePacingForRemotePeer(int fd, const std::string& defaultCongestionControl);

}  // namespace bps::plugin::tcp
