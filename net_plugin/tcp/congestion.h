// Congestion control of the connections inside a machine, which the kernel sends through lo. Nothing is lost there, and
// there is no rate to be found; BBR, where it is the kernel's choice, takes one from what small messages reached and
// keeps large ones to it (docs/transport.md). Other choices, which do not pace, are left alone. A socket that has been
// paced stays paced whatever it is told later, so it has to be told before it is connected: one that connects, by whom
// it connects to; those that a listener accepts begin as the listener is.
#pragma once
#include <string>

#include "src/base/io/socket.h"

namespace bps::plugin::tcp {

// Before a connect, bound or not: no pacing where the peer is in this machine.
void disablePacingForPeer(int fd, const Address& peer);
// What a listener accepts is not paced. Returns what its connections to other machines have to be given back; empty:
// nothing was changed, since the kernel's choice does not pace, or could not be given back.
std::string disablePacingOnListener(int listenFd);
// For an accepted connection: gives back what unpaceAccepted() returned where the peer is in another machine.
void restorePacingForRemotePeer(int fd, const std::string& defaultCongestionControl);

}  // namespace bps::plugin::tcp
