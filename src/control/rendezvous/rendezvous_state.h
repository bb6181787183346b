// RendezvousState: what a RendezvousServer knows and answers, without its thread. Belongs to one thread.
//
// A visitor may send one question and nothing before or after it. The question of rank 0 tells where the hub is; the
// first one stands. What a visitor does wrong costs its connection only.
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
    std::optional<RendezvousRequest> question;
    Deadline arrived, deadline;
  };
  bool serve(Client& client, const PollSet& set);  // false: finished with it
  void addClient(Peer peer);
  Status read(Client& client, const PollSet& set);
  Status check(const RendezvousRequest& question) const;
  void reject(Client& client, const std::string& text);

  AuthListener listener_;
  uint32_t timeoutMs_;
  Deadline end_;
  std::vector<Client> clients_;
  std::optional<RendezvousRequest> hub_;  // rank 0's
  std::set<uint32_t> answered_;           // ranks; one that comes again is answered again
};

}  // namespace bps
