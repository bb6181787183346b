// Star: what a ControlPlane's thread drives, either end of it: the Hub (rank 0) or a Spoke (every other rank).
//
// All functions run on the control thread and never block. What the star has to say goes to StarEvents.
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

class StarEvents {
 public:
  virtual ~StarEvents() = default;
  virtual void joined(const Roster& roster) = 0;
  virtual void answered(Result<std::vector<Blob>> blobs) = 0;  // to round(), at most one at a time
  virtual void failed(const Status& failure) = 0;              // once; nothing but farewell() follows
  virtual void memberLeft(size_t member) = 0;
  virtual void hubLeft() = 0;
  virtual void farewell() = 0;  // leave() is done
};

class Star {
 public:
  virtual ~Star() = default;
  virtual void round(RoundKind kind, std::vector<Blob> blobs, Deadline deadline) = 0;
  virtual void report(Status failure) = 0;
  virtual void suspect(size_t member, std::string text) = 0;
  virtual void leave() = 0;
  // How far this rank is, before every step().
  virtual void progress(const Heartbeat& heartbeat) = 0;

  virtual void watch(PollSet& set) const = 0;
  virtual void step(const PollSet& set) = 0;
  // Nothing is left to say that would be lost by closing the connections now.
  virtual bool quiet() const = 0;
};

// How many items a round answers to a rank: one of every rank, or of every endpoint on the rank's rail.
inline size_t itemsAnswered(RoundKind kind, const Roster& roster) {
  if (gathers(kind)) return roster.ranks.size();
  return kind == RoundKind::kExchange ? roster.endpoints() : 0;
}
// Which of them the rank brought itself.
inline size_t ownItem(RoundKind kind, const Roster& roster, size_t rank) {
  return gathers(kind) ? rank : roster.endpointOf(rank);
}
// The longest item: ranks show each other addresses and numbers.
inline constexpr size_t kMostItemBytes = 16U << 10;

// How long the hub waits for direct evidence before it believes a suspicion.
inline std::chrono::milliseconds suspicionWindow(uint32_t timeoutMs) {
  return std::chrono::milliseconds(std::min<uint32_t>(timeoutMs / 4, 1000));
}

// When who takes part in a round stops to wait for its answer. A hub that is slow, and not yet silent, may answer a
// split that late: a split that is given up is no failure of the communicator.
inline Deadline roundEnd(RoundKind kind, Deadline deadline, const Roster& roster) {
  if (kind != RoundKind::kSplit || deadline.at() == Deadline::never().at()) return deadline;
  const std::chrono::milliseconds silence(roster.settings.timeoutMs / 2);
  return Deadline::in(deadline.at() + silence - Deadline::Clock::now());
}

// What is left until the deadline, as messages carry it; 0: no limit.
inline uint32_t patienceMs(Deadline deadline) {
  constexpr int kMost = 24 * 3600 * 1000;
  if (deadline.at() == Deadline::Clock::time_point::max()) return 0;
  return static_cast<uint32_t>(std::max(1, deadline.leftMs(kMost)));
}
// For people: seconds since a point in time, in tenths.
inline double secondsSince(Deadline::Clock::time_point at) {
  const std::chrono::duration<double, std::deci> tenths = Deadline::Clock::now() - at;
  return std::round(tenths.count()) / 10;
}

inline Deadline deadlineOf(uint32_t patience) {
  return patience == 0 ? Deadline::never() : Deadline::in(std::chrono::milliseconds(patience));
}

}  // namespace bps
