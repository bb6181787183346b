// Suspicions: the members whose data connections broke, until the hub has direct evidence or stops waiting for it. The
// Suspicions belong to the Hub, and only the control thread uses them.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "src/base/deadline.h"

namespace bps {

struct Suspicion {
  size_t member = 0;     // the member to blame; larger than any member's number if none is named
  size_t suspected = 0;  // the member that was suspected; another one if a server has suspected a rank
  size_t from = 0;       // the member that suspects
  std::string text;
};

class Suspicions {
 public:
  // Suspects the member until `deadline`, unless it is suspected already.
  void add(Suspicion suspicion, Deadline deadline);
  // Removes the suspicions with this member, and those of this member.
  void remove(size_t member);
  void clear() { waiting_.clear(); }
  bool empty() const { return waiting_.empty(); }
  bool suspects(size_t member) const;
  // Returns a suspicion whose deadline has passed, and removes it. While the heartbeats of one of its members are
  // missing, a suspicion waits longer, because the silence of this member would be direct evidence.
  std::optional<Suspicion> takeDue(const std::function<bool(size_t member)>& missesHeartbeats);
  Deadline deadline() const;

 private:
  struct Waiting {
    Suspicion suspicion;
    Deadline deadline;
  };
  std::vector<Waiting> waiting_;
};

}  // namespace bps
