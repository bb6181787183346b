// Non-blocking unix stream sockets in the abstract namespace (names are not files, and each network namespace has its
// own names), and the passing of descriptors over them.
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
// Returns an empty descriptor if the listener's queue is full; then try again. kRemote: no process listens there in
// this network namespace.
Result<UniqueFd> connectUnix(const std::string& name);

// Whether the peer process has the user id of this process.
bool isSameUser(int socket);
// "process 1234 of this machine"
std::string peerName(int socket);

Status sendWithFd(int socket, std::span<const uint8_t> bytes, int fd);
// One recvmsg. Fails when the other end has hung up.
Result<FdMessage> receiveWithFds(int socket, std::span<uint8_t> room);

}  // namespace bps::plugin::shm
