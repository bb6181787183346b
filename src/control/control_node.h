// ControlNode: what a ControlPlane's thread drives, either end of it: the Hub (rank 0) or a HubClient (every other
// rank).
//
// All functions run on the control thread and never block. What the star has to say goes to ControlNodeEvents.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include "src/base/deadline.h"
#include "src/base/status.h"
#include "src/control/link/poll_set.h"
#include "src/wire/control_messages.h"
#include "src/wire/roster.h"

namespace bps {

inline constexpr size_t kNoMember = ~size_t{0};

class ControlNodeEvents {
 public:
  virtual ~ControlNodeEvents() = default;
  virtual void joined(const Roster& roster) = 0;
  virtual void answered(Result<std::vector<Blob>> blobs) = 0;  // to round(), at most one at a time
  virtual void failed(const Status& failure) = 0;              // once; nothing but farewell() follows
  virtual void memberLeft(size_t member) = 0;
  virtual void hubLeft() = 0;
  virtual void leaveDone() = 0;  // leave() is done
};

class ControlNode {
 public:
  virtual ~ControlNode() = default;
  virtual void startOp(ControlOp kind, std::vector<Blob> blobs, Deadline deadline) = 0;
  virtual void report(Status failure) = 0;
  virtual void suspect(size_t member, std::string text) = 0;
  virtual void leave() = 0;
  // How far this rank is, before every step().
  virtual void progress(const Heartbeat& heartbeat) = 0;

  virtual void watch(PollSet& set) const = 0;
  virtual void step(const PollSet& set) = 0;
  // Nothing is left to say that would be lost by closing the connections now.
  virtual bool isFlushed() const = 0;
};

// How many items a round answers to a rank: one of every rank, or of every endpoint on the rank's rail.
inline size_t resultItems(ControlOp kind, const Roster& roster) {
  if (isGather(kind)) return roster.ranks.size();
  return kind == ControlOp::kExchange ? roster.endpoints() : 0;
}
// Which of them the rank brought itself.
inline size_t ownItem(ControlOp kind, const Roster& roster, size_t rank) {
  return isGather(kind) ? rank : roster.endpointOf(rank);
}
// The longest item: ranks show each other addresses and numbers.
inline constexpr size_t kMaxItemBytes = 16U << 10;

// How long the hub waits for direct evidence before it believes a suspicion.
inline std::chrono::milliseconds suspicionWindow(uint32_t timeoutMs) {
  return std::chrono::milliseconds(std::min<uint32_t>(timeoutMs / 4, 1000));
}

// When who takes part in a round stops to wait for its answer. A hub that is slow, and not yet silent, may answer a
// split that late: a split that is given up is no failure of the communicator.
inline Deadline controlOpDeadline(ControlOp kind, Deadline deadline, const Roster& roster) {
  if (kind != ControlOp::kSplit || deadline.at() == Deadline::never().at()) return deadline;
  const std::chrono::milliseconds silence(roster.settings.timeoutMs / 2);
  return Deadline::in(deadline.at() + silence - Deadline::Clock::now());
}

// What is left until the deadline, as messages carry it; 0: no limit.
inline uint32_t remainingMs(Deadline deadline) {
  constexpr int kMost = 24 * 3600 * 1000;
  if (deadline.at() == Deadline::Clock::time_point::max()) return 0;
  return static_cast<uint32_t>(std::max(1, deadline.leftMs(kMost)));
}
// For people: seconds since a point in time, in tenths.
inline double secondsSince(Deadline::Clock::time_point at) {
  const std::chrono::duration<double, std::deci> tenths = Deadline::Clock::now() - at;
  return std::round(tenths.count()) / 10;
}

inline Deadline deadlineIn(uint32_t ms) {
  return ms == 0 ? Deadline::never() : Deadline::in(std::chrono::milliseconds(ms));
}

}  // namespace bps
