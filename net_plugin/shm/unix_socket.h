// Functions for non-blocking unix stream sockets, which can also pass descriptors. The sockets are
// in the abstract namespace: their names are not files, and each network namespace has its own
// names.
#pragma once
#include <cstdint>
#include <span>
#include <string>

#include "src/base/io/fd_passing.h"
#include "src/base/status.h"

namespace bps::plugin::shm {

Result<UniqueFd> listenUnix(const std::string& name);
// Returns an empty descriptor if no connection is pending.
Result<UniqueFd> acceptUnix(int listener);
// Returns an empty descriptor if the listener's queue is full; the caller must then try again.
// Fails with kRemote if no process in this network namespace listens at this name.
Result<UniqueFd> connectUnix(const std::string& name);

// Returns whether the peer process has the user id of this process.
bool isSameUser(int socket);
// Returns a text like "process 1234 of this machine".
std::string peerName(int socket);

Status sendWithFd(int socket, std::span<const uint8_t> bytes, int fd);
// Makes one recvmsg call. Fails if the peer has hung up.
Result<FdMessage> receiveWithFds(int socket, std::span<uint8_t> room);

}  // namespace bps::plugin::shm
