#include "net_plugin/link/connector.h"

#include "net_plugin/link/handle_extension.h"
#include "net_plugin/log.h"
#include "net_plugin/shm/shm_listener.h"
#include "net_plugin/stream/send_comm.h"

namespace bps::plugin::link {
Result<ConnectTarget> parseTarget(std::span<const uint8_t> handle, bool sharedMemory) {
  ConnectTarget target{BPS_TRY(tcp::parseHandle(handle)), std::nullopt, verbs::readVerbsExtension(handle)};
  if (sharedMemory) target.shmSocketId = readShmExtension(handle);
  return target;
}

Connector::Connector(const Device& device, const ConnectTarget& target, Deadline deadline)
    : target_(target),
      rdma_(target.rdma ? device.rdma.get() : nullptr),
      peerTimeout_(device.socket.peerTimeout),
      deadline_(deadline),
      remote_(device.socket, target.remote, rdma_ != nullptr ? tcp::Carrier::kVerbs : tcp::Carrier::kStream, deadline) {
  if (device.rdma && !target.rdma)
    logWarn(
        "{}: using TCP instead of {}: the peer has no RDMA device; if NCCL then fails to register GPU memory, set "
        "NCCL_NET_GDR_LEVEL=LOC",
        to(), device.rdma->port().name());
  if (!device.rdma && target.rdma)
    logWarn("{}: using TCP: the peer has an RDMA device, but this side uses {}", to(), device.socket.name);
}

// If the unix socket that the handle names exists, the listener is on this machine. The name of the
// unix socket is a random number in the network namespace of this process. If the shared memory
// connection fails for any reason, the Connector uses the device (TCP or RDMA).
Result<std::unique_ptr<Comm>> Connector::tryShmConnect() {
  Result<std::unique_ptr<shm::SendComm>> connected = shm::shmConnect(*target_.shmSocketId, target_.remote.token);
  if (connected.ok()) {
    std::unique_ptr<shm::SendComm> comm = std::move(connected).value();
    if (comm) logInfo("{}: shared memory with {}", to(), comm->peer());
    if (!comm && expired()) target_.shmSocketId.reset();
    return std::unique_ptr<Comm>(std::move(comm));
  }
  if (connected.error().code() != Code::kRemote) logInfo("{}: no shared memory: {}", to(), connected.error().message());
  target_.shmSocketId.reset();
  return std::unique_ptr<Comm>();
}

Result<std::unique_ptr<Comm>> Connector::stepRemote() {
  if (!handshake_) {
    std::vector<UniqueFd> sockets = BPS_TRY(remote_.step());
    if (sockets.empty()) return std::unique_ptr<Comm>();
    if (rdma_ == nullptr)
      return std::unique_ptr<Comm>(std::make_unique<stream::SendComm>(std::move(sockets), peerTimeout_));
    handshake_ = BPS_TRY(
        rdma_->startHandshake(std::move(sockets.front()), verbs::RdmaDevice::Role::kSender, &*target_.rdma, deadline_));
  }
  return handshake_->step();
}

Result<std::unique_ptr<Comm>> Connector::step() {
  if (target_.shmSocketId) {
    std::unique_ptr<Comm> local = BPS_TRY(tryShmConnect());
    if (local || target_.shmSocketId) return local;
  }
  Result<std::unique_ptr<Comm>> comm = stepRemote();
  if (comm.ok() || rdma_ == nullptr) return comm;
  return std::move(comm).status().within(to() + " by " + rdma_->port().name());
}

}  // namespace bps::plugin::link
