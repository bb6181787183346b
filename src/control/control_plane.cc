#include "src/control/control_plane.h"

#include <unistd.h>

#include <algorithm>
#include <thread>

#include "bps/bps.h"
#include "src/base/format.h"
#include "src/base/guard.h"
#include "src/base/io/interfaces.h"
#include "src/base/log.h"
#include "src/base/process/thread_name.h"
#include "src/control/host_id.h"
#include "src/control/hub/hub.h"
#include "src/control/hub_client.h"
#include "src/control/keys/crypto.h"
#include "src/control/mailbox.h"
#include "src/control/relay/relay_member.h"
#include "src/fabric/fabric_place.h"

namespace bps {
namespace {

// After a stop, the connections stay open for at most this time, so that a failure can still reach the peers.
constexpr std::chrono::milliseconds kFailureFlushTime(500);
constexpr double kBytesPerGbit = 1e9 / 8;

uint32_t timeoutMs(const Env& env) { return static_cast<uint32_t>(env.timeout.value * 1000); }

// A Link fails after half of its timeout.
uint32_t serverTimeoutMs(const Env& env) {
  return static_cast<uint32_t>(std::min(env.timeout.value, 2 * env.serverTimeout.value) * 1000);
}

Join joinOf(const Env& env, const JoinArgs& args, const Address& standby, const std::optional<FabricSpec>& fabric) {
  Join join;
  join.rank = args.rank;
  join.nRanks = args.nRanks;
  join.pid = static_cast<uint32_t>(::getpid());
  join.libraryVersion = BPS_VERSION_CODE;
  join.hostId = args.hostId.empty() ? localHostId(env) : args.hostId;
  join.hostName = localHostName();
  join.bytesPerSecond = env.bandwidth.value * kBytesPerGbit;
  join.standby = standby;
  join.group = args.shrink.name;
  if (fabric) join.fabric = fabric->shapeText();
  return join;
}

Status findServers(const Env& env, ServerPoolArgs& servers) {
  if (env.servers.empty()) return {};
  servers.targets = BPS_TRY(serverTargets(env.servers));
  servers.credentials = {BPS_TRY(serverKey(env)), env.auth, serverTimeoutMs(env)};
  return {};
}

struct NodeArgs {
  const JoinArgs& join;
  const Address& standby;
  const std::shared_ptr<ClockOffset>& clock;
  Deadline deadline;
  const std::optional<FabricSpec>& fabric;
  const std::shared_ptr<RelayMember>& relays;
};

// A fabric needs no servers: all its machines sum.
Status checkServers(const Env& env, const std::optional<FabricSpec>& fabric) {
  if (!fabric || env.servers.empty()) return {};
  return failure(Code::kInvalidUsage,
                 "BPS_SERVERS={} and BPS_FABRIC={}: servers are not possible on a fabric, because most machines cannot "
                 "reach them; unset one of the two",
                 env.servers, env.fabric);
}

HubArgs hubArgs(const Env& env, const NodeArgs& node, Join join) {
  const JoinArgs& args = node.join;
  HubArgs hub;
  hub.id = args.id;
  hub.credentials = {args.id.key, env.auth, timeoutMs(env)};
  hub.join = std::move(join);
  hub.shrink = args.shrink;
  hub.interfaces = env.socketIfname;
  hub.deadline = node.deadline;
  hub.relays = node.relays;
  hub.settings = {env.partitionBytes.value, env.exchangeBytes.value,          env.singleOwnerBytes.value,
                  timeoutMs(env),           static_cast<uint32_t>(env.rails), env.checksum,
                  serverTimeoutMs(env) / 2};
  hub.settings.parameters = args.parameters;
  if (env.staleness >= 0) hub.settings.staleness = static_cast<uint32_t>(env.staleness);
  hub.servers.required = env.requireServers;
  hub.serverList = env.servers;
  if (node.fabric) {
    hub.settings.fabricN = static_cast<uint32_t>(node.fabric->shape.n());
    hub.settings.fabricK = static_cast<uint32_t>(node.fabric->shape.k());
    hub.settings.rails = 1;
  }
  hub.startError = checkServers(env, node.fabric);
  if (hub.startError.ok()) hub.startError = findServers(env, hub.servers);
  return hub;
}

Result<std::unique_ptr<ControlNode>> createControlNode(const Env& env, const NodeArgs& node,
                                                       ControlNodeEvents& events) {
  const JoinArgs& args = node.join;
  BPS_TRY(cryptoInit());
  if (args.rank >= args.nRanks)
    return failure(Code::kInvalidArgument, "rank {} is out of range: the communicator has {} ranks", args.rank,
                   args.nRanks);
  Join join = joinOf(env, args, node.standby, node.fabric);
  if (args.rank > 0) {
    HubClientArgs client{args.id, {args.id.key, env.auth, timeoutMs(env)}, std::move(join), node.deadline};
    client.clock = node.clock;
    client.relays = node.relays;
    if (!args.shrink.rankNames.empty()) client.hubName = args.shrink.rankNames.front();
    return std::unique_ptr<ControlNode>(std::make_unique<HubClient>(std::move(client), events));
  }
  HubArgs hub = hubArgs(env, node, std::move(join));
  hub.ports = env.portRange;
  return std::unique_ptr<ControlNode>(BPS_TRY(Hub::create(std::move(hub), events)));
}

Result<std::shared_ptr<RelayMember>> createRelayMember(const Env& env, const JoinArgs& args, const FabricSpec& fabric) {
  const FabricPlace place = BPS_TRY(findPlace(fabric, interfaceAddresses(), env.socketIfname));
  RelayMemberArgs relays = relayMemberArgs(place, fabric.relayPort);
  relays.self = {args.rank, localHostName()};
  relays.nRanks = args.nRanks;
  relays.timeout = std::chrono::milliseconds(timeoutMs(env));
  relays.direct = args.direct;
  auto member = BPS_TRY(RelayMember::create(std::move(relays)));
  member->expect(args.id.address);
  member->ask(args.id.address);
  return member;
}

}  // namespace

class ControlPlane::Impl {
 public:
  Impl(const Env& env, JoinArgs args, Doorbell bell, Sinks sinks)
      : env_(env),
        args_(std::move(args)),
        clock_(env.trace.empty() || args_.rank == 0 ? nullptr : std::make_shared<ClockOffset>()),
        mailbox_(std::move(bell), std::move(sinks)) {}
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  ~Impl() {
    mailbox_.stop();
    if (thread_.joinable()) thread_.join();
  }

  Status join(Deadline deadline) {
    Address standbyAddress;
    if (args_.nRanks > 1) {
      UniqueFd socket = BPS_TRY(listenOnFirst(env_.socketIfname, env_.portRange, AuthListener::kBacklog));
      standbyAddress = BPS_TRY(localAddress(socket.get()));
      standby_ = std::make_shared<const UniqueFd>(std::move(socket));
    }
    const std::optional<FabricSpec> fabric = BPS_TRY(parseFabric(env_.fabric));
    if (fabric && fabric->relayPort != 0 && args_.nRanks > 1)
      relays_ = BPS_TRY(createRelayMember(env_, args_, *fabric));
    node_ = BPS_TRY(createControlNode(env_, {args_, standbyAddress, clock_, deadline, fabric, relays_}, mailbox_));
    thread_ = std::thread([this] { main(); });
    Status joined = mailbox_.waitJoin(deadline, roster_);
    const std::string problem = joined.ok() || relays_ == nullptr ? "" : relays_->problem();
    return problem.empty() ? std::move(joined) : std::move(joined).within(problem);
  }

  Mailbox& mailbox() { return mailbox_; }
  const Roster& roster() const { return roster_; }
  uint32_t rank() const { return args_.rank; }
  std::shared_ptr<const ClockOffset> clock() const { return clock_; }
  std::shared_ptr<const UniqueFd> standby() const { return standby_; }

 private:
  void main() {
    logThreadName(fmt::format("rank {}", args_.rank));
    nameThread("bps-control");
    const Status status = guarded([this]() -> Status { return loop(); });
    if (!status.ok()) [[maybe_unused]]
      const Status told = guarded([&] { mailbox_.failed(status); });
    node_.reset();
  }

  Status loop() {
    PollSet set;
    std::optional<Deadline> end;
    while (true) {
      set.clear();
      set.add(mailbox_.wakeFd());
      node_->watch(set);
      if (relays_) relays_->watch(set);
      if (end) set.wakeAt(end->at());
      BPS_TRY(set.wait());
      bool stopped = false;
      for (const Mailbox::Call& call : mailbox_.takeCalls(stopped)) call(*node_);
      node_->setHeartbeat(mailbox_.heartbeat());
      node_->step(set);
      if (relays_) relays_->step(set);
      if (!end && stopped) end = Deadline::in(kFailureFlushTime);
      if (end && (node_->isFlushed() || end->passed())) return {};
    }
  }

  const Env env_;
  const JoinArgs args_;
  const std::shared_ptr<ClockOffset> clock_;  // null if it is not measured
  Mailbox mailbox_;
  // join() sets these three, which are constant afterwards.
  std::shared_ptr<const UniqueFd> standby_;
  std::shared_ptr<RelayMember> relays_;  // null if there is no relay to dial through
  Roster roster_;
  std::unique_ptr<ControlNode> node_;  // only the control thread uses it after join() has started the thread
  std::thread thread_;
};

ControlPlane::ControlPlane(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ControlPlane::~ControlPlane() = default;

Result<std::unique_ptr<ControlPlane>> ControlPlane::create(const Env& env, JoinArgs args, Sinks sinks) {
  auto impl = std::make_unique<Impl>(env, std::move(args), BPS_TRY(Doorbell::create()), std::move(sinks));
  return std::unique_ptr<ControlPlane>(new ControlPlane(std::move(impl)));
}

Status ControlPlane::join(Deadline deadline) { return impl_->join(deadline); }

const Roster& ControlPlane::roster() const { return impl_->roster(); }
uint32_t ControlPlane::rank() const { return impl_->rank(); }
std::shared_ptr<const ClockOffset> ControlPlane::clockOffset() const { return impl_->clock(); }
std::shared_ptr<const UniqueFd> ControlPlane::standby() const { return impl_->standby(); }

Result<std::vector<Blob>> ControlPlane::gather(const Blob& mine, Deadline deadline) {
  return impl_->mailbox().runOp(ControlOp::kGather, {mine}, deadline);
}

Result<std::vector<Blob>> ControlPlane::gatherForSplit(const Blob& mine, Deadline deadline) {
  return impl_->mailbox().runOp(ControlOp::kSplit, {mine}, deadline);
}

Result<std::vector<Blob>> ControlPlane::gatherForRecovery(const Blob& mine, Deadline deadline) {
  return impl_->mailbox().runOp(ControlOp::kRecovery, {mine}, deadline);
}

Result<std::vector<Blob>> ControlPlane::exchange(const std::vector<Blob>& perEndpoint, Deadline deadline) {
  return impl_->mailbox().runOp(ControlOp::kExchange, perEndpoint, deadline);
}

Status ControlPlane::barrier(Deadline deadline) {
  return impl_->mailbox().runOp(ControlOp::kBarrier, {}, deadline).status();
}

void ControlPlane::report(const Status& failure) {
  auto copy = std::make_shared<Status>(failure.clone());  // a std::function must be copyable, but a Status is not
  impl_->mailbox().post([copy](ControlNode& node) { node.report(copy->clone()); });
}

void ControlPlane::suspect(size_t member, const std::string& text) {
  impl_->mailbox().post([member, text](ControlNode& node) { node.suspect(member, text); });
}

void ControlPlane::suspect(const std::string& text) { suspect(kNoMember, text); }

void ControlPlane::proposeRate(size_t server, double factor) {
  impl_->mailbox().post([=](ControlNode& node) { node.proposeRate(server, factor); });
}

void ControlPlane::reply(const ServerReply& reply) {
  impl_->mailbox().post([reply](ControlNode& node) { node.reply(reply); });
}

void ControlPlane::reportCallsStarted(uint64_t calls) { impl_->mailbox().setCallsStarted(calls); }
void ControlPlane::reportWait(const MemberWait& wait) { impl_->mailbox().setWait(wait); }

void ControlPlane::leave(Deadline deadline) { impl_->mailbox().waitLeave(deadline); }
bool ControlPlane::hasLeft(size_t member) const { return impl_->mailbox().hasLeft(member); }
void ControlPlane::interrupt() { impl_->mailbox().interrupt(); }

}  // namespace bps
