// Non-blocking TCP sockets, with errors that name the address. Nothing here waits. Any thread.
#pragma once
#include <optional>

#include "src/base/env/port_range.h"
#include "src/base/io/address.h"
#include "src/base/io/fd.h"
#include "src/base/status.h"

namespace bps {

// Listens (SO_REUSEADDR, close-on-exec, non-blocking); port 0 takes a free one. "port in use" names the address.
Result<UniqueFd> listenOn(const Address& address, int backlog = 512);
// As listenOn(); port 0 takes a free one of the range. A failure names the range if it is full.
Result<UniqueFd> listenOn(const Address& address, const PortRange& ports, int backlog = 512);
Result<Address> localAddress(int fd);
Result<Address> peerAddress(int fd);
// Starts a connect, from the address `from` (port 0) if it is given. Finish it with connectResult() once the descriptor
// polls writable.
Result<UniqueFd> startConnect(const Address& address, const Address* from = nullptr);
// What SO_ERROR says of a connect that was in progress.
Status connectResult(int fd, const Address& address);
// One accepted connection (non-blocking, close-on-exec, no delay), or nothing when none waits.
Result<std::optional<UniqueFd>> acceptFrom(int listenFd);
void setNoDelay(int fd);

}  // namespace bps
