// Listener: waits for one caller by every way that it may come: through the device, or, from this machine, through
// shared memory.
#pragma once
#include <memory>

#include "net_plugin/comm.h"
#include "net_plugin/shm/door.h"
#include "net_plugin/tcp/listener.h"

namespace bps::plugin::link {

class Listener {
 public:
  static Result<std::unique_ptr<Listener>> create(const tcp::Device& device, bool sharedMemory);

  tcp::HandleBytes handle() const;
  // Null: the caller has not come yet. Never blocks.
  Result<std::unique_ptr<Comm>> accept();

 private:
  Listener(std::unique_ptr<tcp::Listener> remote, std::unique_ptr<shm::Door> door)
      : remote_(std::move(remote)), door_(std::move(door)) {}

  std::unique_ptr<tcp::Listener> remote_;
  std::unique_ptr<shm::Door> door_;  // null: no shared memory
};

}  // namespace bps::plugin::link
