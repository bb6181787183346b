// Meeting: the hub's part of the join: lets ranks in, checks what they say, and knows who is missing.
//
// Who joins becomes a Link at once, so that a rank that dies while others are still on their way is noticed. A newcomer
// may send a join and nothing before it; what it does wrong costs its connection only. Belongs to the control thread.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/control/hub/rank_table.h"
#include "src/control/link/doorman.h"
#include "src/control/link/link.h"

namespace bps {

class Meeting {
 public:
  Meeting(const Join& hub, std::optional<Doorman> doorman, uint32_t timeoutMs, Deadline deadline);

  void watch(PollSet& set) const;
  // Fails when a rank's word makes the communicator impossible.
  Status step(const PollSet& set);

  struct Arrival {
    uint32_t rank;
    std::unique_ptr<Link> link;
  };
  std::vector<Arrival> takeArrivals() { return std::exchange(arrivals_, {}); }
  const RankTable& table() const { return table_; }
  // When the first of those who have come loses patience.
  Deadline deadline() const { return deadline_; }
  // "2 of 8 ranks missing: 2, 5; waited 10 s at 127.0.0.1:4567"
  std::string missing() const;

  // Stops listening. Those on their way are told the failure, if there is one.
  void close();
  void tell(const Status& failure);
  // Sends what is queued to a rank that has left, and closes.
  void seeOff(std::unique_ptr<ControlSocket> socket) { doorman_->seeOff(std::move(socket)); }
  bool quiet() const { return !doorman_ || doorman_->idle(); }

 private:
  struct Newcomer {
    std::unique_ptr<Link> link;
    Deadline deadline;
  };
  void meet(Peer peer);
  // Whether the newcomer is no longer one; fails as step().
  Result<bool> receive(Newcomer& newcomer, const PollSet& set);
  Result<bool> admit(Newcomer& newcomer, const Join& join);

  RankTable table_;
  std::optional<Doorman> doorman_;
  uint32_t timeoutMs_;
  Deadline deadline_, since_;
  std::string where_;
  std::vector<Newcomer> newcomers_;
  std::vector<Arrival> arrivals_;
};

}  // namespace bps
