// ControlNode: one end of a communicator's control connections, which form a star: the Hub in rank 0, or a HubClient in
// every other rank.
//
// A ControlPlane owns one ControlNode and calls it on its control thread only. No function blocks. The node reports
// results and failures through ControlNodeEvents, on the same thread.
//
// A member is a rank or a server of the communicator. Members are numbered: ranks 0..N-1, then the servers.
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
  virtual void answered(Result<std::vector<Blob>> blobs) = 0;  // the result of startOp(); at most one at a time
  virtual void failed(const Status& failure) = 0;              // at most once; only leaveDone() may follow
  virtual void memberLeft(size_t member) = 0;
  virtual void hubLeft() = 0;
  virtual void leaveDone() = 0;  // leave() has completed
};

class ControlNode {
 public:
  virtual ~ControlNode() = default;
  virtual void startOp(ControlOp kind, std::vector<Blob> blobs, Deadline deadline) = 0;
  virtual void report(Status failure) = 0;
  virtual void suspect(size_t member, std::string text) = 0;
  virtual void leave() = 0;
  // Sets what this rank's next heartbeats carry. Called before every step().
  virtual void setHeartbeat(const Heartbeat& heartbeat) = 0;

  virtual void watch(PollSet& set) const = 0;
  virtual void step(const PollSet& set) = 0;
  // True if closing the connections now would lose no queued output.
  virtual bool isFlushed() const = 0;
};

// The number of items that a control operation returns to a rank: one per rank, or one per endpoint of its rail.
inline size_t resultItems(ControlOp kind, const Roster& roster) {
  if (isGather(kind)) return roster.ranks.size();
  return kind == ControlOp::kExchange ? roster.endpoints() : 0;
}
// The index of this rank's own item among them.
inline size_t ownItem(ControlOp kind, const Roster& roster, size_t rank) {
  return isGather(kind) ? rank : roster.endpointOf(rank);
}
// The longest item. Ranks exchange addresses and numbers only, which are short.
inline constexpr size_t kMaxItemBytes = 16U << 10;

// How long the hub waits for direct evidence before it turns a suspicion into a failure.
inline std::chrono::milliseconds suspicionWindow(uint32_t timeoutMs) {
  return std::chrono::milliseconds(std::min<uint32_t>(timeoutMs / 4, 1000));
}

// When a rank stops waiting for the result of an operation. A slow hub may report the outcome of a split up to half a
// timeout late. Waiting for it matters because a cancelled split does not fail the communicator.
inline Deadline controlOpDeadline(ControlOp kind, Deadline deadline, const Roster& roster) {
  if (kind != ControlOp::kSplit || deadline.at() == Deadline::never().at()) return deadline;
  const std::chrono::milliseconds silence(roster.settings.timeoutMs / 2);
  return Deadline::in(deadline.at() + silence - Deadline::Clock::now());
}

// The time left until the deadline, in messages; 0 means no limit.
inline uint32_t remainingMs(Deadline deadline) {
  constexpr int kMost = 24 * 3600 * 1000;
  if (deadline.at() == Deadline::Clock::time_point::max()) return 0;
  return static_cast<uint32_t>(std::max(1, deadline.leftMs(kMost)));
}
// Seconds since a point in time, rounded to tenths for messages.
inline double secondsSince(Deadline::Clock::time_point at) {
  const std::chrono::duration<double, std::deci> tenths = Deadline::Clock::now() - at;
  return std::round(tenths.count()) / 10;
}

inline Deadline deadlineIn(uint32_t ms) {
  return ms == 0 ? Deadline::never() : Deadline::in(std::chrono::milliseconds(ms));
}

}  // namespace bps
