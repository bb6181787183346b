// Listener: accepts the receiving end of a connection, over TCP, RDMA or shared memory. A Listener
// is used by one thread at a time.
#pragma once
#include <memory>
#include <vector>

#include "net_plugin/comm.h"
#include "net_plugin/link/device.h"
#include "net_plugin/shm/shm_listener.h"
#include "net_plugin/tcp/listener.h"

namespace bps::plugin::link {

class Listener {
 public:
  static Result<std::unique_ptr<Listener>> create(const Device& device, bool sharedMemory);

  tcp::HandleBytes handle() const;
  // Returns null until a peer has connected. Never blocks.
  Result<std::unique_ptr<Comm>> accept();

 private:
  using Handshake = std::unique_ptr<verbs::RdmaDevice::Handshake>;
  static constexpr size_t kMaxHandshakes = 16;

  Listener(const Device& device, std::unique_ptr<tcp::Listener> remote, std::unique_ptr<shm::ShmListener> shmListener)
      : rdma_(device.rdma.get()),
        peerTimeout_(device.socket.peerTimeout),
        remote_(std::move(remote)),
        shmListener_(std::move(shmListener)) {}

  Result<std::unique_ptr<Comm>> acceptRemote();
  void startHandshake(UniqueFd socket);
  std::unique_ptr<Comm> stepHandshakes();

  verbs::RdmaDevice* rdma_;  // null if the device supports only TCP
  tcp::PeerTimeout peerTimeout_;
  std::unique_ptr<tcp::Listener> remote_;
  std::unique_ptr<shm::ShmListener> shmListener_;  // null if shared memory is not available
  std::vector<Handshake> handshakes_;              // oldest first
};

}  // namespace bps::plugin::link
