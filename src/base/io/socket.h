// Functions for non-blocking TCP sockets. Errors name the address. No function waits, and any
// thread may call them.
#pragma once
#include <optional>

#include "src/base/env/port_range.h"
#include "src/base/io/address.h"
#include "src/base/io/fd.h"
#include "src/base/status.h"

namespace bps {

// Opens a listening socket (SO_REUSEADDR, close-on-exec, non-blocking). Port 0 means any free port.
Result<UniqueFd> listenOn(const Address& address, int backlog = 512);
// As listenOn(address, backlog), but returns nothing if the port is in use.
Result<std::optional<UniqueFd>> listenIfFree(const Address& address, int backlog);
// As listenOn(address, backlog), but port 0 means a free port of the range. If no port of the range
// is free, the failure names the range.
Result<UniqueFd> listenOn(const Address& address, const PortRange& ports, int backlog = 512);
Result<Address> localAddress(int fd);
Result<Address> peerAddress(int fd);
// Starts a connect. If `from` is given (with port 0), the connection starts from that address. When
// the descriptor polls writable, connectResult() returns the outcome.
Result<UniqueFd> startConnect(const Address& address, const Address* from = nullptr);
// Returns the outcome of the connect (SO_ERROR).
Status connectResult(int fd, const Address& address);
// Accepts one connection (non-blocking, close-on-exec, TCP_NODELAY). Returns nullopt if none is pending.
Result<std::optional<UniqueFd>> acceptFrom(int listenFd);
void setNoDelay(int fd);

}  // namespace bps
