// ControlPlane: one rank's part of what a communicator says beside its data.
//
// A star of authenticated TCP connections around the hub, which lives in rank 0's ControlPlane and also holds one
// connection to every server. It agrees on the roster, carries the transport's handles, notices within a bounded time
// who died or stopped, and tells everybody the same reason. One thread per ControlPlane owns all its sockets; the
// functions below hand it work and may be called from any one thread at a time, except report(), suspect() and
// interrupt(), which any thread may call at any time.
//
// Liveness: every connection carries a heartbeat each way every timeout/10. A side that is silent for timeout/2, or
// whose connection breaks without a goodbye, is named in a failure. The hub's first failure is the communicator's:
// later ones (usually consequences) are dropped, so all ranks and servers report the same culprit.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "src/base/deadline.h"
#include "src/base/env.h"
#include "src/base/status.h"
#include "src/control/unique_id.h"
#include "src/wire/control_messages.h"
#include "src/wire/roster.h"

namespace bps {

struct JoinArgs {
  UniqueId id;
  uint32_t rank = 0;
  uint32_t nRanks = 1;
  std::string hostId;  // empty: BPS_HOSTID, else host name and boot id
};

// The call that waits, and for which member.
struct MemberWait {
  uint64_t call = 0;
  uint32_t member = Heartbeat::kNobody;
};

class ControlPlane {
 public:
  // Told once, on the control thread, of the first failure; must not block or call back. After a goodbye by the hub
  // or by this rank it is not called.
  using FailureSink = std::function<void(Status)>;

  // Does not block; join() comes next.
  static Result<std::unique_ptr<ControlPlane>> create(const Env& env, JoinArgs args, FailureSink sink);
  // Starts the control thread and blocks until the roster is agreed: all ranks have come, and every server of the
  // hub's BPS_SERVERS has opened the job or was left out (with a warning; BPS_REQUIRE_SERVERS=1: an error). Servers
  // that refuse connections are retried for a while (they may start after the workers), up to half of the time-out.
  // On time-out the error names who is missing.
  Status join(Deadline deadline);
  ~ControlPlane();  // joins the thread; without leave() the others see a failure

  const Roster& roster() const;
  uint32_t rank() const;

  // Collectives over the star; each blocks until all its participants have called it, and names who has not when the
  // deadline passes. Every participant makes the same sequence of these calls.
  // What comes back has as many items as asked for, none longer than 16 KiB, this rank's own unchanged; what the
  // others' items hold is for the caller to check. A hub that answers anything else is named in the failure. All ranks:
  // everyone's bytes, in rank order.
  Result<std::vector<Blob>> gather(const Blob& mine, Deadline deadline);
  // The same for a split: if somebody does not come in time it fails on all ranks, and nothing else does. Whoever comes
  // later fails too.
  Result<std::vector<Blob>> gatherForSplit(const Blob& mine, Deadline deadline);
  // The first Roster::rails() ranks of every machine, and the servers. A rank's perEndpoint[e] goes to endpoint e on
  // the same rail; answers what that one sent. A server brings and gets that for all rails, one rail after the other.
  Result<std::vector<Blob>> exchange(const std::vector<Blob>& perEndpoint, Deadline deadline);
  // All ranks and servers.
  Status barrier(Deadline deadline);

  // This rank met a failure (a mismatch, an internal error, an abort): everybody is told. Does not block.
  void report(const Status& failure);
  // This rank's connection to a member broke: the hub decides what really happened (a dead process usually breaks
  // several connections at once) and tells everybody; without its word for a second the text given here stands. Once
  // the hub has said goodbye, a broken connection is no failure: it has completed its calls, and the others leave as
  // well.
  void suspect(size_t member, const std::string& text);
  // The same where it is not known whose fault it is.
  void suspect(const std::string& text);
  // For the heartbeats, by which the hub finds out who cannot reach whom. So many calls have begun here; and what this
  // rank has waited for, for the time-out or longer, until it waits for something else. Neither blocks; any thread.
  void reportCallsStarted(uint64_t calls);
  void reportWait(const MemberWait& wait);
  // Says goodbye (the others then do not take the end of this connection for a failure) and waits until it is sent.
  // The hub's goodbye leaves the others without liveness checks, not without data connections.
  void leave(Deadline deadline);
  // True once the given member, or the hub, has said goodbye.
  bool hasLeft(size_t member) const;
  // Makes a blocking call above, or the next one, return kInvalidUsage ("aborted") soon.
  void interrupt();

  class Impl;

 private:
  explicit ControlPlane(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace bps
