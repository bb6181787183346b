#include "net_plugin/link/listener.h"

#include "net_plugin/link/door_sign.h"
#include "net_plugin/log.h"

namespace bps::plugin::link {

Result<std::unique_ptr<Listener>> Listener::create(const tcp::Device& device, bool sharedMemory) {
  std::unique_ptr<tcp::Listener> remote = BPS_TRY(tcp::Listener::create(device));
  std::unique_ptr<shm::Door> door;
  if (sharedMemory) {
    const tcp::HandleData data = BPS_TRY(tcp::parseHandle(remote->handle()));
    Result<std::unique_ptr<shm::Door>> opened = shm::Door::open(data.token);
    if (opened.ok()) door = std::move(opened).value();
    else logInfo("no shared memory with processes of this machine: {}", opened.error().message());
  }
  return std::unique_ptr<Listener>(new Listener(std::move(remote), std::move(door)));
}

tcp::HandleBytes Listener::handle() const {
  tcp::HandleBytes handle = remote_->handle();
  if (door_) writeDoor(handle, door_->number());
  return handle;
}

Result<std::unique_ptr<Comm>> Listener::accept() {
  if (door_) {
    std::unique_ptr<shm::RecvComm> local = BPS_TRY(door_->accept());
    if (local) return std::unique_ptr<Comm>(std::move(local));
  }
  return std::unique_ptr<Comm>(BPS_TRY(remote_->accept()));
}

}  // namespace bps::plugin::link
