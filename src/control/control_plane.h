// ControlPlane: one rank's interface to the communicator's control connections.
//
// The hub runs in rank 0's ControlPlane. The hub has one authenticated TCP connection to every other rank and to every
// server. Over these control connections the members agree on the roster and exchange the addresses of their data
// connections. The control plane also detects dead or stopped members within a bounded time and reports the same
// failure to all members.
//
// A ControlPlane belongs to its communicator. Every ControlPlane has one control thread, which handles all sockets. The
// functions below pass their work to the control thread. Any thread may call report(), suspect(), reportCallsStarted(),
// reportWait() and interrupt() at any time. The other functions, except gatherForRecovery(), may be called by only
// one thread at a time.
//
// Every control connection carries a heartbeat in each direction every tenth of BPS_TIMEOUT. The communicator fails if
// a peer is silent for half of BPS_TIMEOUT, or if its connection breaks before its goodbye message. The error names
// this peer. The first failure that reaches the hub becomes the communicator's failure. The hub drops later failures,
// because they are usually consequences of the first failure. All ranks and servers therefore name the same culprit.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "src/base/deadline.h"
#include "src/base/env.h"
#include "src/base/status.h"
#include "src/control/shrink_group.h"
#include "src/control/unique_id.h"
#include "src/wire/clock_offset.h"
#include "src/wire/roster.h"
#include "src/wire/server_messages.h"

namespace bps {

struct JoinArgs {
  UniqueId id;
  uint32_t rank = 0;
  uint32_t nRanks = 1;
  std::string hostId;  // if it is empty, localHostId() supplies the id
  ShrinkGroup shrink{};
  bool direct = true;       // as in RelayMemberArgs
  bool parameters = false;  // JobSettings::parameters
};

// A call of this rank that waits for data of another member, and the number of that member.
struct MemberWait {
  uint64_t call = 0;
  uint32_t member = Heartbeat::kNobody;
};

class ControlPlane {
 public:
  // The control thread calls the FailureSink once, with the first failure after join(). The FailureSink must not block
  // and must not call the ControlPlane. The FailureSink is not called after this rank has said goodbye. After the hub's
  // goodbye the FailureSink receives only failures that this rank reports itself.
  using FailureSink = std::function<void(Status)>;
  // The control thread calls the ServerEventSink for each event of a server, in the same order on all ranks. The
  // ServerEventSink must not block and must not call the ControlPlane. Some thread of every rank then calls
  // gatherForRecovery() once for each loss, in this order, and reply() as ServerEvent requires.
  using ServerEventSink = std::function<void(const ServerEvent&)>;
  struct Sinks {
    FailureSink failure;
    ServerEventSink serverEvent;
  };

  // create() does not block. Call join() next.
  static Result<std::unique_ptr<ControlPlane>> create(const Env& env, JoinArgs args, Sinks sinks);
  // Starts the control thread and blocks until all members have the same roster. join() waits for all ranks and for all
  // servers in rank 0's BPS_SERVERS. A server that does not open the job is left out with a warning; if
  // BPS_REQUIRE_SERVERS=1, join() fails instead. Servers may start after the workers: the hub retries refused
  // connections for up to half of BPS_TIMEOUT. If the deadline passes, the error names the missing ranks or servers.
  Status join(Deadline deadline);
  ~ControlPlane();  // joins the control thread; if leave() was not called, the other members see a failure

  const Roster& roster() const;
  uint32_t rank() const;
  // The socket that listens at this rank's address in RankEntry::standby. Nobody accepts its connections until this
  // rank becomes the hub of a shrunken communicator. Null if there is only one rank. Call standby() after join().
  std::shared_ptr<const UniqueFd> standby() const;

  // The following four functions are the control operations. A control operation blocks until all participants have
  // called it. If the deadline passes, the error names the missing participants. All participants must call the control
  // operations in the same order.
  //
  // A result has the expected number of items, every item is at most 16 KiB long, and this rank's own item is
  // unchanged. If the hub sends a result that breaks these rules, the failure names the hub. The caller must validate
  // the content of the items of other members.
  //
  // gather() returns the bytes of every rank in rank order. All ranks take part.
  Result<std::vector<Blob>> gather(const Blob& mine, Deadline deadline);
  // A gather() for splitting the communicator. If a rank does not call gatherForSplit() in time, the split fails on all
  // ranks, but the communicator goes on. If that rank calls gatherForSplit() later, its split fails too.
  Result<std::vector<Blob>> gatherForSplit(const Blob& mine, Deadline deadline);
  // A gather() after the loss of a server. One thread may call gatherForRecovery() while another thread calls any other
  // control operation. The item of a rank that has left is empty.
  Result<std::vector<Blob>> gatherForRecovery(const Blob& mine, Deadline deadline);
  // The first Roster::rails() ranks of every machine take part in an exchange(), and in the first exchange() also all
  // servers. perEndpoint[e] goes to endpoint e (a machine or a server) on this rank's rail. The result contains the
  // item that each endpoint sent to this rank. A server sends and receives the items of all rails, one rail after the
  // other.
  Result<std::vector<Blob>> exchange(const std::vector<Blob>& perEndpoint, Deadline deadline);
  // All ranks take part in a barrier(), and in the first barrier() also all servers.
  Status barrier(Deadline deadline);

  // By how much the clock of rank 0 is ahead, measured since join(). Null if BPS_TRACE is not set, and in rank 0.
  std::shared_ptr<const ClockOffset> clockOffset() const;

  // Reports a failure of this rank, for example a mismatch or an internal error, to all members. Does not block.
  void report(const Status& failure);
  // Reports to the hub that this rank's data connection to a member broke. A dead process usually breaks several
  // connections at once, so the hub decides which member is the culprit and tells all members. If the hub does not
  // report a failure within a few seconds, `text` becomes the failure. After the hub's goodbye a suspicion of a member
  // is ignored: the hub has completed its calls, so the other ranks leave as well.
  void suspect(size_t member, const std::string& text);
  // Reports a broken data connection if the culprit is unknown.
  void suspect(const std::string& text);
  // Replies to an event of a server. Does not block. Any thread may call reply().
  void reply(const ServerReply& reply);
  // Only rank 0 calls proposeRate(). The hub gives the server the share of `factor` times its rate, from a call on that
  // no rank has begun. Does not block.
  void proposeRate(size_t server, double factor);
  // The next two functions set the content of this rank's heartbeats. From the heartbeats the hub finds two members
  // that cannot reach each other. `calls` is the number of calls that this rank has begun. `wait` names the call and
  // the member for which this rank has waited for Roster::waitReportTime() or longer. `wait` is valid until the next
  // reportWait(). The two functions do not block, and any thread may call them.
  void reportCallsStarted(uint64_t calls);
  void reportWait(const MemberWait& wait);
  // Sends this rank's goodbye message and waits until the message is sent. After the goodbye of a rank, the other
  // members do not treat the end of its control connection as a failure. After the goodbye of the hub, the other ranks
  // receive no heartbeats any more, but their data connections stay open.
  void leave(Deadline deadline);
  // True if `member` or the hub has said goodbye.
  bool hasLeft(size_t member) const;
  // Makes the blocking function that is running now, and every later one, return kInvalidUsage ("aborted") soon.
  void interrupt();

  class Impl;

 private:
  explicit ControlPlane(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace bps
