// RootDesk: what a Root knows and answers, without its thread. Belongs to one thread.
//
// A visitor may send one question and nothing before or after it. The question of rank 0 tells where the hub is; the
// first one stands. What a visitor does wrong costs its connection only.
#pragma once
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "src/control/link/doorman.h"
#include "src/control/link/link.h"

namespace bps {

class RootDesk {
 public:
  RootDesk(Doorman doorman, uint32_t timeoutMs);

  void watch(PollSet& set) const;
  void step(const PollSet& set);
  bool done() const;

 private:
  struct Visitor {
    std::unique_ptr<Link> link;
    std::optional<AskRoot> question;
    Deadline arrived, deadline;
  };
  bool serve(Visitor& visitor, const PollSet& set);  // false: finished with it
  void meet(Peer peer);
  Status read(Visitor& visitor, const PollSet& set);
  Status check(const AskRoot& question) const;
  void dismiss(Visitor& visitor, const std::string& text);

  Doorman doorman_;
  uint32_t timeoutMs_;
  Deadline end_;
  std::vector<Visitor> visitors_;
  std::optional<AskRoot> hub_;   // rank 0's
  std::set<uint32_t> answered_;  // ranks; one that comes again is answered again
};

}  // namespace bps
