// RendezvousServer: the meeting point that bpsGetUniqueId starts. It tells every rank where rank 0's hub listens, and
// ends.
//
// A thread per root that has not ended, kept in a process-wide registry: the one global of the control plane. The
// registry joins ended threads when the next root starts, and stops and joins all when the process exits. In a child
// of fork() it forgets them, since the threads did not come along.
//
// A root ends when rank 0 and all others have been answered, or BPS_TIMEOUT after it started or was last asked; a rank
// whose own patience ends before rank 0 has come is told so.
#pragma once
#include "src/base/env.h"
#include "src/base/io/socket.h"
#include "src/base/status.h"
#include "src/control/unique_id.h"

namespace bps {

// Starts a root on the first interface that BPS_SOCKET_IFNAME selects; answers its address.
Result<Address> startRendezvous(const Env& env, const Key& key);
// Ends the root that listens there, if it is in this process: its communicator needs no meeting.
void stopRendezvous(const Address& address);
// For tests: how many have not ended.
size_t runningRendezvousServers();

}  // namespace bps
