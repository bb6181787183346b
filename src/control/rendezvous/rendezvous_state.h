// RendezvousState: the logic of a RendezvousServer, without its thread. Belongs to that thread.
//
// A client may send one request and nothing else. Rank 0's request carries the hub's address; the first one counts. A
// client that breaks the protocol is disconnected, without other effects.
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
  bool serve(Client& client, const PollSet& set);  // false: the client is done
  void addClient(Peer peer);
  Status read(Client& client, const PollSet& set);
  Status check(const RendezvousRequest& request) const;
  void reject(Client& client, const std::string& text);

  AuthListener listener_;
  uint32_t timeoutMs_;
  Deadline end_;
  std::vector<Client> clients_;
  std::optional<RendezvousRequest> hub_;  // rank 0's
  std::set<uint32_t> answered_;           // ranks; a repeated request is answered again
};

}  // namespace bps
