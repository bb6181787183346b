// ControlNode: the object that handles the control connections of one rank. Rank 0 has a Hub, every other rank has a
// HubClient. The control connections form a star around the Hub.
//
// Every ControlPlane has one ControlNode and calls it on its control thread only. No function of a ControlNode blocks.
// The ControlNode reports results and failures by calling ControlNodeEvents on the control thread.
//
// A member is a rank or a server of the communicator. The members are numbered. Ranks 0..N-1 come first, then the
// servers.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include "src/base/deadline.h"
#include "src/base/status.h"
#include "src/control/link/poll_set.h"
#include "src/wire/server_messages.h"
#include "src/wire/roster.h"

namespace bps {

inline constexpr size_t kNoMember = ~size_t{0};

class ControlNodeEvents {
 public:
  virtual ~ControlNodeEvents() = default;
  virtual void joined(const Roster& roster) = 0;
  // The result of startOp(). Operations of one kind do not overlap.
  virtual void answered(ControlOp kind, Result<std::vector<Blob>> blobs) = 0;
  virtual void failed(const Status& failure) = 0;  // called at most once; after it only leaveDone() may be called
  virtual void memberLeft(size_t member) = 0;
  virtual void serverEvent(const ServerEvent& event) = 0;
  virtual void hubLeft() = 0;
  virtual void leaveDone() = 0;  // leave() has completed
};

class ControlNode {
 public:
  virtual ~ControlNode() = default;
  virtual void startOp(ControlOp kind, std::vector<Blob> blobs, Deadline deadline) = 0;
  virtual void report(Status failure) = 0;
  virtual void suspect(size_t member, std::string text) = 0;
  virtual void reply(ServerReply reply) = 0;
  virtual void proposeRate(size_t server, double factor) = 0;
  virtual void leave() = 0;
  // Sets the content of this rank's next heartbeats. The ControlPlane calls setHeartbeat() before every step().
  virtual void setHeartbeat(const Heartbeat& heartbeat) = 0;

  virtual void watch(PollSet& set) const = 0;
  virtual void step(const PollSet& set) = 0;
  // True if the connections can be closed now without losing queued output.
  virtual bool isFlushed() const = 0;
};

// The number of items that a control operation returns to a rank. A gather or split returns one item per rank. An
// exchange returns one item per endpoint (machine or server). A barrier returns no items.
inline size_t resultItems(ControlOp kind, const Roster& roster) {
  if (isGather(kind)) return roster.ranks.size();
  return kind == ControlOp::kExchange ? roster.endpoints() : 0;
}
// The index of this rank's own item among the returned items.
inline size_t ownItem(ControlOp kind, const Roster& roster, size_t rank) {
  return isGather(kind) ? rank : roster.endpointOf(rank);
}
// The maximum size of an item. Items contain only addresses and numbers, so they are short.
inline constexpr size_t kMaxItemBytes = 16U << 10;

// How long the hub waits for direct evidence (a broken connection or missing heartbeats) before it turns a suspicion
// into a failure.
inline std::chrono::milliseconds suspicionWindow(uint32_t timeoutMs) {
  return std::chrono::milliseconds(std::min<uint32_t>(timeoutMs / 4, 1000));
}

// The time at which a rank stops waiting for the result of an operation. For a split this time is half of BPS_TIMEOUT
// after the deadline, because a slow hub may report the outcome of a split that late. A rank that stops waiting fails
// the communicator, but a split that the hub cancels does not.
inline Deadline controlOpDeadline(ControlOp kind, Deadline deadline, const Roster& roster) {
  if (kind != ControlOp::kSplit || deadline.at() == Deadline::never().at()) return deadline;
  const std::chrono::milliseconds silence(roster.settings.timeoutMs / 2);
  return Deadline::in(deadline.at() + silence - Deadline::Clock::now());
}

// The milliseconds left until the deadline, in the form that messages carry. 0 means that there is no deadline.
inline uint32_t remainingMs(Deadline deadline) {
  constexpr int kMost = 24 * 3600 * 1000;
  if (deadline.at() == Deadline::Clock::time_point::max()) return 0;
  return static_cast<uint32_t>(std::max(1, deadline.leftMs(kMost)));
}
// Seconds since a point in time, rounded to tenths for error texts.
inline double secondsSince(Deadline::Clock::time_point at) {
  const std::chrono::duration<double, std::deci> tenths = Deadline::Clock::now() - at;
  return std::round(tenths.count()) / 10;
}

inline Deadline deadlineIn(uint32_t ms) {
  return ms == 0 ? Deadline::never() : Deadline::in(std::chrono::milliseconds(ms));
}

}  // namespace bps
