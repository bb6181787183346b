// RendezvousClient: asks a RendezvousServer where the hub is; as rank 0, tells it. Non-blocking; belongs to one thread.
#pragma once
#include <memory>
#include <optional>

#include "src/control/link/dialer.h"
#include "src/control/link/link.h"

namespace bps {

class RendezvousClient {
 public:
  RendezvousClient(DialArgs args, const RendezvousRequest& question, Deadline deadline);

  void watch(PollSet& set) const;
  // The hub's address once the root has told it (to rank 0: its own, back).
  Result<std::optional<Address>> step(const PollSet& set);

 private:
  Result<std::optional<Address>> readAnswer();

  std::string where_;
  uint32_t timeoutMs_;
  RendezvousRequest question_;
  Deadline deadline_;
  Dialer dialer_;
  std::unique_ptr<Link> link_;
};

}  // namespace bps
