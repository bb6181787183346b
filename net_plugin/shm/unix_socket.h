// Unix stream sockets in the abstract name space (no file; one name space per network namespace), and the passing of a
// descriptor over them. Nothing here waits.
#pragma once
#include <cstdint>
#include <span>
#include <string>

#include "src/base/io/fd_passing.h"
#include "src/base/status.h"

namespace bps::plugin::shm {

Result<UniqueFd> listenUnix(const std::string& name);
// An empty descriptor: none waits.
Result<UniqueFd> acceptUnix(int listener);
// kRemote: nobody listens there (in this network namespace). An empty descriptor: too many callers now, try again.
Result<UniqueFd> connectUnix(const std::string& name);

// Whether the other end, or who listens there, has this process's user id.
bool isSameUser(int socket);
// "process 1234 of this machine"
std::string peerName(int socket);

Status sendWithFd(int socket, std::span<const uint8_t> bytes, int fd);
// One recvmsg. Fails when the other end has hung up.
Result<FdMessage> receiveWithFds(int socket, std::span<uint8_t> room);

}  // namespace bps::plugin::shm
