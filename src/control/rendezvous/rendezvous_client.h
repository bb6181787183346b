// RendezvousClient: asks a RendezvousServer for the hub's address; as rank 0, tells it. Non-blocking; belongs to the
// control thread.
#pragma once
#include <memory>
#include <optional>

#include "src/control/link/dialer.h"
#include "src/control/link/link.h"

namespace bps {

class RendezvousClient {
 public:
  RendezvousClient(DialArgs args, const RendezvousRequest& request, Deadline deadline);

  void watch(PollSet& set) const;
  // The hub's address once the rendezvous server has sent it. Rank 0 gets its own address back.
  Result<std::optional<Address>> step(const PollSet& set);

 private:
  Result<std::optional<Address>> readAnswer();

  std::string where_;
  uint32_t timeoutMs_;
  RendezvousRequest request_;
  Deadline deadline_;
  Dialer dialer_;
  std::unique_ptr<Link> link_;
};

}  // namespace bps
