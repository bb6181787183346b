#include "net_plugin/link/listener.h"

#include "net_plugin/link/handle_extension.h"
#include "net_plugin/log.h"
#include "net_plugin/stream/recv_comm.h"

namespace bps::plugin::link {
namespace {

// The limit can be short, because a peer with the right token creates its queue pair immediately.
constexpr std::chrono::seconds kHandshakeTimeout{5};

}  // namespace

Result<std::unique_ptr<Listener>> Listener::create(const Device& device, bool sharedMemory) {
  std::unique_ptr<tcp::Listener> remote = BPS_TRY(tcp::Listener::create(device.socket));
  std::unique_ptr<shm::ShmListener> shmListener;
  if (sharedMemory) {
    const tcp::HandleData data = BPS_TRY(tcp::parseHandle(remote->handle()));
    Result<std::unique_ptr<shm::ShmListener>> opened = shm::ShmListener::create(data.token);
    if (opened.ok()) shmListener = std::move(opened).value();
    else logInfo("no shared memory between processes of this machine: {}", opened.error().message());
  }
  return std::unique_ptr<Listener>(new Listener(device, std::move(remote), std::move(shmListener)));
}

tcp::HandleBytes Listener::handle() const {
  tcp::HandleBytes handle = remote_->handle();
  if (shmListener_) writeShmExtension(handle, shmListener_->socketId());
  if (rdma_ != nullptr) verbs::writeVerbsExtension(handle, rdma_->verbsExtension());
  return handle;
}

void Listener::startHandshake(UniqueFd socket) {
  Result<Handshake> begun = rdma_ == nullptr
                                ? Status(Code::kRemote, "it requests RDMA, which this device does not support")
                                : rdma_->startHandshake(std::move(socket), verbs::RdmaDevice::Role::kReceiver, nullptr,
                                                        Deadline::in(kHandshakeTimeout));
  if (!begun.ok()) {
    logWarn("cannot connect a peer: {}", begun.error().message());
    return;
  }
  if (handshakes_.size() == kMaxHandshakes) handshakes_.erase(handshakes_.begin());
  handshakes_.push_back(std::move(begun).value());
}

std::unique_ptr<Comm> Listener::stepHandshakes() {
  for (size_t i = 0; i < handshakes_.size();) {
    Result<std::unique_ptr<Comm>> stepped = handshakes_[i]->step();
    const bool failed = !stepped.ok();
    if (failed) logWarn("cannot connect a peer: {}", stepped.error().message());
    std::unique_ptr<Comm> comm = failed ? nullptr : std::move(stepped).value();
    if (!failed && comm == nullptr) {
      ++i;
      continue;
    }
    handshakes_.erase(handshakes_.begin() + static_cast<std::ptrdiff_t>(i));
    if (comm) return comm;
  }
  return nullptr;
}

Result<std::unique_ptr<Comm>> Listener::acceptRemote() {
  tcp::Listener::AcceptedConnection arrival = BPS_TRY(remote_->accept());
  if (!arrival.sockets.empty() && arrival.carrier == tcp::Carrier::kStream)
    return std::unique_ptr<Comm>(std::make_unique<stream::RecvComm>(std::move(arrival.sockets), peerTimeout_));
  if (!arrival.sockets.empty()) startHandshake(std::move(arrival.sockets.front()));
  return stepHandshakes();
}

Result<std::unique_ptr<Comm>> Listener::accept() {
  if (shmListener_) {
    std::unique_ptr<shm::RecvComm> local = BPS_TRY(shmListener_->accept());
    if (local) return std::unique_ptr<Comm>(std::move(local));
  }
  return acceptRemote();
}

}  // namespace bps::plugin::link
