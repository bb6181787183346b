// RendezvousClient: asks a RendezvousServer for the hub's address. In rank 0 the RendezvousClient tells the hub's
// address to the RendezvousServer. No function blocks, and only the control thread uses a RendezvousClient.
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
  // Returns the hub's address, or nothing if the rendezvous server has not sent it yet. Rank 0 gets its own address
  // back.
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
