// RendezvousServer: started by bpsGetUniqueId. It tells every rank the address of rank 0's hub, then ends.
//
// Each rendezvous server is a thread in a process-wide registry, the only global of the control plane. The registry
// joins ended threads when the next one starts, and stops and joins all when the process exits. In a child of fork()
// the registry forgets its threads, since fork() does not copy them.
//
// A rendezvous server ends once all ranks have been answered, or BPS_TIMEOUT after it started or got its last request.
// If a rank's own deadline passes before rank 0 has come, it receives an error that says so.
#pragma once
#include "src/base/env.h"
#include "src/base/io/socket.h"
#include "src/base/status.h"
#include "src/control/unique_id.h"

namespace bps {

// Starts a server on the first interface that BPS_SOCKET_IFNAME selects. Returns its address.
Result<Address> startRendezvous(const Env& env, const Key& key);
// Ends the server at this address if it is in this process, because its communicator needs none.
void stopRendezvous(const Address& address);
// For tests: the number of servers that have not ended.
size_t runningRendezvousServers();

}  // namespace bps
