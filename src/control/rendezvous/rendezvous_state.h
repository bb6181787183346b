// RendezvousState: the logic of a RendezvousServer. Only the thread of the RendezvousServer uses the RendezvousState.
//
// A client may send one request and nothing else. The request of rank 0 contains the hub's address. A second request of
// rank 0 breaks the protocol. If a client breaks the protocol, it is disconnected without other effects.
#pragma once
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "src/control/link/auth_listener.h"
#include "src/control/link/link.h"

namespace bps {

class RendezvousState {
 public:
  RendezvousState(AuthListener listener, uint32_t timeoutMs);

  void watch(PollSet& set) const;
  void step(const PollSet& set);
  bool done() const;

 private:
  struct Client {
    std::unique_ptr<Link> link;
    std::optional<RendezvousRequest> request;
    Deadline arrived, deadline;
  };
  bool serve(Client& client, const PollSet& set);  // false if the client can be removed
  void addClient(Peer peer);
  Status read(Client& client, const PollSet& set);
  Status check(const RendezvousRequest& request) const;
  void reject(Client& client, const std::string& text);

  AuthListener listener_;
  uint32_t timeoutMs_;
  Deadline end_;
  std::vector<Client> clients_;
  std::optional<RendezvousRequest> hub_;  // rank 0's
  std::set<uint32_t> answered_;           // the ranks that were answered; a rank may ask again
};

}  // namespace bps
