// ControlPlane: one rank's interface to the communicator's control connections.
//
// Authenticated TCP connections form a star around the hub, which runs in rank 0's ControlPlane. The hub also has one
// connection to every server. The control plane agrees on the roster, carries the transport's handles, detects dead or
// stopped members within a bounded time and reports the same failure to all members.
//
// The communicator owns its ControlPlane. One control thread per ControlPlane owns all sockets; the functions below
// pass work to it. Only one thread at a time may call them, except report(), suspect(), reportCallsStarted(),
// reportWait() and interrupt(), which any thread may call at any time.
//
// Liveness: every connection carries a heartbeat in each direction every timeout/10. A peer that is silent for
// timeout/2, or whose connection breaks before its goodbye, causes a failure that names it. The first failure that the
// hub learns of becomes the communicator's failure. Later failures, which are usually consequences, are dropped, so all
// ranks and servers name the same culprit.
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
  std::string hostId;  // if empty: BPS_HOSTID, or else host name and boot id
};

// The call that waits, and the member it waits for.
struct MemberWait {
  uint64_t call = 0;
  uint32_t member = Heartbeat::kNobody;
};

class ControlPlane {
 public:
  // Called once with the first failure, on the control thread. It must not block or call back. It is not called after
  // the hub or this rank has said goodbye.
  using FailureSink = std::function<void(Status)>;

  // Does not block. Call join() next.
  static Result<std::unique_ptr<ControlPlane>> create(const Env& env, JoinArgs args, FailureSink sink);
  // Starts the control thread and blocks until the roster is agreed. That needs all ranks, and that every server in the
  // hub's BPS_SERVERS has opened the job or was left out (with a warning; with BPS_REQUIRE_SERVERS=1 with an error).
  // Servers may start after the workers: refused connections are retried for up to half of the timeout. If the deadline
  // passes, the error names the missing ranks or servers.
  Status join(Deadline deadline);
  ~ControlPlane();  // joins the thread; without leave() the other members see a failure

  const Roster& roster() const;
  uint32_t rank() const;

  // Control operations. Each blocks until all participants have called it. If the deadline passes, the error names the
  // missing participants. Every participant must make the same sequence of these calls.
  //
  // A result has the expected number of items, each at most 16 KiB, and this rank's own item is unchanged. The caller
  // must validate the content of the other items. If the hub sends any other result, the failure names the hub.
  //
  // gather(): among all ranks. Returns every rank's bytes in rank order.
  Result<std::vector<Blob>> gather(const Blob& mine, Deadline deadline);
  // gather() for a split. If a rank does not call it in time, the split fails on all ranks but the communicator goes
  // on. The split of a rank that calls it later fails too.
  Result<std::vector<Blob>> gatherForSplit(const Blob& mine, Deadline deadline);
  // Among the first Roster::rails() ranks of every machine and the servers. perEndpoint[e] goes to endpoint e on this
  // rank's rail; the result holds what each endpoint sent to this rank. A server sends and gets the items of all rails,
  // one rail after the other.
  Result<std::vector<Blob>> exchange(const std::vector<Blob>& perEndpoint, Deadline deadline);
  // Among all ranks and servers.
  Status barrier(Deadline deadline);

  // Reports a failure of this rank (a mismatch, an internal error, an abort) to all members. Does not block.
  void report(const Status& failure);
  // Reports that this rank's connection to a member broke. The hub decides on the cause, because a dead process usually
  // breaks several connections at once, and tells all members. If the hub stays silent for a second, `text` becomes the
  // failure. After the hub's goodbye a broken connection is no failure: the hub has completed its calls, and the other
  // ranks leave as well.
  void suspect(size_t member, const std::string& text);
  // The same if the culprit is unknown.
  void suspect(const std::string& text);
  // Set what the heartbeats carry. The hub uses them to find two members that cannot reach each other. `calls` is the
  // number of calls begun here. `wait` is what this rank has waited for during the timeout or longer; it holds until
  // the next reportWait(). Neither blocks; any thread.
  void reportCallsStarted(uint64_t calls);
  void reportWait(const MemberWait& wait);
  // Says goodbye and waits until it is sent. After a goodbye the other members do not treat the end of this connection
  // as a failure. After the hub's goodbye the other ranks have no liveness checks, but their data connections stay.
  void leave(Deadline deadline);
  // True if the given member, or the hub, has said goodbye.
  bool hasLeft(size_t member) const;
  // Makes the current blocking call, or the next one, return kInvalidUsage ("aborted") soon.
  void interrupt();

  class Impl;

 private:
  explicit ControlPlane(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace bps
