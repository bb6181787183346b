// RendezvousServer: tells every rank the address of the hub, then ends. bpsGetUniqueId starts a RendezvousServer.
//
// Each rendezvous server runs in its own thread. A registry holds all rendezvous servers of the process. When the next
// rendezvous server starts, the registry joins the threads that have ended. When the process exits, the registry stops
// and joins all threads. In a child of fork() the registry forgets its threads, because fork() does not copy threads.
//
// A rendezvous server ends when it has answered all ranks. A rendezvous server also ends if no rank connects for
// BPS_TIMEOUT. If the deadline of a rank passes before rank 0 has connected, this rank receives an error that says so.
#pragma once
#include "src/base/env.h"
#include "src/base/io/socket.h"
#include "src/base/status.h"
#include "src/control/unique_id.h"

namespace bps {

// Starts a rendezvous server on the first interface that BPS_SOCKET_IFNAME selects. Returns the address of the
// rendezvous server.
Result<Address> startRendezvous(const Env& env, const Key& key);
// Ends the rendezvous server at this address if it runs in this process. A communicator of one rank needs no rendezvous
// server.
void stopRendezvous(const Address& address);
// The number of rendezvous servers that have not ended. Only tests call this function.
size_t runningRendezvousServers();

}  // namespace bps
