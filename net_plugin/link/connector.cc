#include "net_plugin/link/connector.h"

#include "net_plugin/link/door_sign.h"
#include "net_plugin/log.h"
#include "net_plugin/shm/door.h"

namespace bps::plugin::link {

Result<Target> parseTarget(std::span<const uint8_t> handle, bool sharedMemory) {
  Target target{BPS_TRY(tcp::parseHandle(handle)), std::nullopt};
  if (sharedMemory) target.door = readDoor(handle);
  return target;
}

Connector::Connector(const tcp::Device& device, const Target& target, Deadline deadline)
    : target_(target), remote_(device, target.remote, deadline) {}

// The unix socket itself is the proof that the listener is on this machine: its name is a random number in our own
// network namespace. Whatever is wrong with it, the device is there.
Result<std::unique_ptr<Comm>> Connector::tryDoor() {
  Result<std::unique_ptr<shm::SendComm>> visited = shm::visit(*target_.door, target_.remote.token);
  if (visited.ok()) {
    std::unique_ptr<shm::SendComm> comm = std::move(visited).value();
    if (comm) logInfo("to {}: shared memory with {}", target_.remote.address.text(), comm->peer());
    if (!comm && expired()) target_.door.reset();
    return std::unique_ptr<Comm>(std::move(comm));
  }
  if (visited.error().code() != Code::kRemote)
    logInfo("to {}: no shared memory: {}", target_.remote.address.text(), visited.error().message());
  target_.door.reset();
  return std::unique_ptr<Comm>();
}

Result<std::unique_ptr<Comm>> Connector::step() {
  if (target_.door) {
    std::unique_ptr<Comm> local = BPS_TRY(tryDoor());
    if (local || target_.door) return local;
  }
  return std::unique_ptr<Comm>(BPS_TRY(remote_.step()));
}

}  // namespace bps::plugin::link
