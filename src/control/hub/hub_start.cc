// The start of a communicator: until the hub is running.
#include <fcntl.h>

#include <algorithm>

#include "src/base/format.h"
#include "src/base/io/interfaces.h"
#include "src/base/log.h"
#include "src/control/hub/hub.h"
#include "src/control/keys/crypto.h"
#include "src/control/rendezvous/rendezvous_server.h"
#include "src/plan/bcube/bcube.h"

namespace bps {

using std::chrono::milliseconds;

namespace {

Result<UniqueFd> openListener(const HubArgs& args) {
  if (args.shrink.standby != nullptr) return UniqueFd(::fcntl(args.shrink.standby->get(), F_DUPFD_CLOEXEC, 0));
  if (args.id.kind == UniqueId::Kind::kRendezvous)
    return listenOnFirst(args.interfaces, args.ports, AuthListener::kBacklog);
  return listenOn(args.id.address, args.ports, AuthListener::kBacklog);
}

}  // namespace

Result<std::unique_ptr<Hub>> Hub::create(HubArgs args, ControlNodeEvents& events) {
  args.servers.job = randomJobId();
  const bool viaRendezvous = args.id.kind == UniqueId::Kind::kRendezvous;
  if (args.join.nRanks == 1) {
    if (viaRendezvous) stopRendezvous(args.id.address);
    return std::unique_ptr<Hub>(new Hub(std::move(args), std::nullopt, events));
  }
  UniqueFd listener = BPS_TRY(openListener(args));
  AuthListener authListener =
      BPS_TRY(AuthListener::create(std::move(listener), args.credentials, Purpose::kJoin, args.servers.job));
  const Address address = BPS_TRY(authListener.address());
  if (args.relays != nullptr) args.relays->reached(address, {});
  std::unique_ptr<Hub> hub(new Hub(std::move(args), std::move(authListener), events));
  if (viaRendezvous) hub->registerWithRendezvous(address);
  return hub;
}

Hub::Hub(HubArgs args, std::optional<AuthListener> authListener, ControlNodeEvents& events)
    : args_(std::move(args)),
      events_(events),
      admission_(RankTable(args_.join, args_.shrink.rankNames), std::move(authListener), args_.credentials.timeoutMs,
                 args_.deadline),
      servers_(args_.servers),
      pause_(args_.settings.timeoutMs),
      members_(args_.join.nRanks) {
  failStart(std::exchange(args_.startError, Status()));
}

void Hub::failStart(Status why) {
  if (why.ok() || !startError_.ok()) return;
  if (!admission_.table().complete()) logWarn(Subsystem::kInit, "cannot start: {}", why.message());
  startError_ = std::move(why);
}

void Hub::registerWithRendezvous(const Address& hub) {
  RendezvousRequest word;
  word.nRanks = args_.join.nRanks;
  word.isHub = true;
  word.hub = hub;
  const DialArgs dial{{args_.id.address}, args_.credentials, Purpose::kRendezvous, 0, args_.relays};
  rendezvous_ = std::make_unique<RendezvousClient>(dial, word, args_.deadline);
}

Status Hub::stepJoining(const PollSet& set) {
  if (rendezvous_) {
    const std::optional<Address> told = BPS_TRY(rendezvous_->step(set));
    if (told) rendezvous_.reset();
  }
  BPS_TRY(admission_.step(set));
  for (RankAdmission::JoinedRank& joined : admission_.takeJoinedRanks()) {
    members_[joined.rank].link = std::move(joined.link);
    losses_.setVia(joined.rank, admission_.table().via(joined.rank));
  }
  if (startError_.ok() && !servers_.started() && admission_.table().hasSeveralMachines()) {
    const auto timeout = milliseconds(args_.credentials.timeoutMs);
    const auto half = started_.at() + timeout / 2 - Deadline::Clock::now();
    servers_.start(Deadline::in(std::max<Deadline::Clock::duration>(half, timeout / 10)));
  }
  if (startError_.ok()) failStart(servers_.step(set));
  if (!admission_.table().complete()) return {};
  if (!startError_.ok()) return startError_.clone();
  if (!servers_.allResponded()) return {};
  return open();
}

Status Hub::open() {
  // Close the listener before the roster is sent, because a rank that has the roster may start the next communicator at
  // the same address.
  admission_.close();
  BPS_TRY(checkServersUsable());
  Roster roster = admission_.table().roster(args_.servers.job, args_.settings);
  BPS_TRY(checkFabric(roster));
  // A file of servers may list further servers later. More servers than machines add nothing (plan/shares.h).
  if (servers_.started() && args_.serverList.starts_with('@') && !args_.settings.parameters)
    roster.servers.resize(std::max(args_.servers.targets.size(), roster.machines.size()), ServerEntry{"", 0, false});
  servers_.propose(roster);
  state_ = State::kOpening;
  return servers_.allOpened() ? begin() : Status();
}

// The ranks of one machine need no network.
Status Hub::checkFabric(Roster& roster) const {
  JobSettings& settings = roster.settings;
  if (roster.machines.size() == 1) settings.fabricN = settings.fabricK = 0;
  if (settings.fabricN == 0) return {};
  const size_t machines = BPS_TRY(Bcube::create(settings.fabricN, settings.fabricK)).machines();
  if (roster.machines.size() == machines) return {};
  return failure(Code::kInvalidUsage, "BPS_FABRIC={} has {} machines, but the ranks of the communicator run on {}",
                 args_.join.fabric, machines, roster.machines.size());
}

Status Hub::checkServersUsable() const {
  const bool named = !args_.servers.targets.empty(), several = admission_.table().hasSeveralMachines();
  if (several && args_.servers.required && !named)
    return {Code::kInvalidArgument, "BPS_REQUIRE_SERVERS=1, but BPS_SERVERS names none"};
  if (several || !named) return {};
  constexpr const char* kWhy = "all ranks are on one machine, and servers only sum between machines";
  if (args_.servers.required) return failure(Code::kInvalidUsage, "BPS_REQUIRE_SERVERS=1, but {}", kWhy);
  logWarn(Subsystem::kInit, "BPS_SERVERS is not used: {}", kWhy);
  return {};
}

Status Hub::begin() {
  roster_ = servers_.roster();
  members_.resize(roster_.members());
  size_t member = roster_.ranks.size();
  for (auto& link : servers_.begin()) members_[member++].link = std::move(link);
  for (member = roster_.ranks.size(); member < members_.size(); ++member)
    members_[member].left = !members_[member].link;
  if (!roster_.servers.empty() && !roster_.settings.parameters)
    changes_ = std::make_unique<ServerChanges>(roster_, args_.servers, ServerFile(args_.serverList), *this);
  ops_.emplace(roster_);
  stalls_.emplace(roster_);
  const Blob roster = encode(roster_);
  for (size_t rank = 1; rank < roster_.ranks.size(); ++rank) {
    members_[rank].link->send(MessageType::kRoster, roster);
    members_[rank].link->setTimeout(roster_.settings.timeoutMs);
  }
  state_ = State::kRunning;
  events_.joined(roster_);
  return {};
}

Status Hub::checkStart() const {
  if (!admission_.deadline().passed()) return {};
  if (!startError_.ok()) return startError_.clone();
  if (!admission_.table().complete()) return {Code::kRemote, admission_.missing()};
  return failure(Code::kRemote, "servers have not opened the job in time: {}", servers_.pending());
}

}  // namespace bps
