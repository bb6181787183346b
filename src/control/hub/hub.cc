#include "src/control/hub/hub.h"

#include <algorithm>

#include "src/base/format.h"
#include "src/base/io/interfaces.h"
#include "src/base/log.h"
#include "src/control/frames.h"
#include "src/control/keys/crypto.h"
#include "src/control/rendezvous/rendezvous_server.h"

namespace bps {
namespace {

// The time between sending a failure to the other members and reporting the failure to the caller in rank 0.
constexpr std::chrono::milliseconds kFailureDeliveryDelay(300);

}  // namespace

using std::chrono::milliseconds;

Result<std::unique_ptr<Hub>> Hub::create(HubArgs args, ControlNodeEvents& events) {
  args.servers.job = randomJobId();
  const bool viaRendezvous = args.id.kind == UniqueId::Kind::kRendezvous;
  if (args.join.nRanks == 1) {
    if (viaRendezvous) stopRendezvous(args.id.address);
    return std::unique_ptr<Hub>(new Hub(std::move(args), std::nullopt, events));
  }
  Address address = args.id.address;
  if (viaRendezvous) {
    address = BPS_TRY(selectInterfaces(args.interfaces)).front().address;
    address.setPort(0);
  }
  UniqueFd listener = BPS_TRY(listenOn(address, args.ports, AuthListener::kBacklog));
  AuthListener authListener =
      BPS_TRY(AuthListener::create(std::move(listener), args.credentials, Purpose::kJoin, args.servers.job));
  address = BPS_TRY(authListener.address());
  std::unique_ptr<Hub> hub(new Hub(std::move(args), std::move(authListener), events));
  if (viaRendezvous) hub->registerWithRendezvous(address);
  return hub;
}

Hub::Hub(HubArgs args, std::optional<AuthListener> authListener, ControlNodeEvents& events)
    : args_(std::move(args)),
      events_(events),
      admission_(args_.join, std::move(authListener), args_.credentials.timeoutMs, args_.deadline),
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
  const DialArgs dial{{args_.id.address}, args_.credentials, Purpose::kRendezvous, 0};
  rendezvous_ = std::make_unique<RendezvousClient>(dial, word, args_.deadline);
}

void Hub::startOp(ControlOp kind, std::vector<Blob> blobs, Deadline deadline) {
  pause_.update();
  if (state_ == State::kLeaving || state_ == State::kOver) return refuseOwnOp(kind);
  if (state_ != State::kRunning) return;
  const uint32_t number = ownOpNumbers_[static_cast<size_t>(kind)]++;
  const Status status = addOpInput(0, ControlOpInput{kind, number, remainingMs(deadline), std::move(blobs)});
  if (!status.ok()) fail(status);
}

void Hub::suspect(size_t member, std::string text) {
  pause_.update();
  if (state_ != State::kRunning) return;
  const Status status = addSuspicion(0, Suspect{static_cast<uint32_t>(member), std::move(text)});
  if (!status.ok()) fail(status);
}

void Hub::leave() {
  if (state_ == State::kRunning) {
    broadcast(MessageType::kGoodbye, {});
    state_ = State::kLeaving;
    refuseOwnOps();
    return;
  }
  if (state_ != State::kLeaving) events_.leaveDone();
}

void Hub::watch(PollSet& set) const {
  if (state_ == State::kOver) return;
  pause_.watch(set);
  for (const Member& member : members_)
    if (member.link) member.link->watch(set);
  admission_.watch(set);
  servers_.watch(set);
  if (rendezvous_) rendezvous_->watch(set);
  if (state_ == State::kJoining || state_ == State::kOpening) set.wakeAt(admission_.deadline().at());
  if (ops_) set.wakeAt(ops_->deadline().at());
  set.wakeAt(suspicions_.deadline().at());
  if (!failure_.ok()) set.wakeAt(Deadline::in(kFailureDeliveryDelay / 100).at());
  // A communicator of one rank has no sockets that could wake the event loop, so the first iteration must not wait.
  if (state_ == State::kJoining && admission_.table().size() == 1) set.wakeAt(Deadline::Clock::now());
}

void Hub::step(const PollSet& set) {
  pause_.update();
  if (state_ == State::kFailed || state_ == State::kLeaving) return drainMembers(set);
  if (state_ == State::kOver) return;
  Status status = advance(set);
  if (status.ok()) status = checkDeadlines();
  if (!status.ok()) fail(status);
}

Status Hub::advance(const PollSet& set) {
  BPS_TRY(receive(set));
  switch (state_) {
    case State::kJoining:
      return stepJoining(set);
    case State::kOpening:
      BPS_TRY(servers_.step(set));
      return servers_.allOpened() ? begin() : Status();
    default:
      return admission_.step(set);  // closes the connections of ranks that have left
  }
}

Status Hub::stepJoining(const PollSet& set) {
  if (rendezvous_) {
    const std::optional<Address> told = BPS_TRY(rendezvous_->step(set));
    if (told) rendezvous_.reset();
  }
  BPS_TRY(admission_.step(set));
  for (RankAdmission::JoinedRank& joined : admission_.takeJoinedRanks())
    members_[joined.rank].link = std::move(joined.link);
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
  servers_.propose(admission_.table().roster(args_.servers.job, args_.settings));
  state_ = State::kOpening;
  return servers_.allOpened() ? begin() : Status();
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
  for (auto& link : servers_.begin()) members_.push_back({std::move(link), false});
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

Status Hub::receive(const PollSet& set) {
  for (size_t member = 1; member < members_.size(); ++member) {
    if (!members_[member].link) continue;
    const Status received = receiveFrom(member, set);
    if (!received.ok()) BPS_TRY(lose(member, received));
  }
  return {};
}

// Goes on without a server. Returns the failure if it is not the server's loss.
Status Hub::lose(size_t member, const Status& why) {
  const bool own = why.code() == Code::kRemote || why.code() == Code::kSystem;
  if (!own || !mayLose(member)) return why.clone();
  if (members_[member].left) return {};
  const ServerLost loss{static_cast<uint32_t>(member - roster_.ranks.size()), why.message()};
  members_[member].link->sendFailure(
      failure(Code::kRemote, "{} goes on without this server: {}", roster_.rankName(0), why.message()));
  members_[member].link.reset();
  members_[member].left = true;
  ++lost_;
  stalls_->onHeartbeat(member, Heartbeat(), 0);
  suspicions_.remove(member);
  for (size_t rank = 1; rank < roster_.ranks.size(); ++rank)
    if (members_[rank].link) members_[rank].link->send(loss);
  events_.serverLost(loss);
  return {};
}

Status Hub::receiveFrom(size_t member, const PollSet& set) {
  BPS_TRY(members_[member].link->step(set));
  for (int turn = 0; turn < kFramesPerStep && members_[member].link; ++turn) {
    const std::optional<Frame> frame = BPS_TRY(members_[member].link->next());
    if (!frame) return {};
    BPS_TRY(handle(member, *frame));
  }
  return {};
}

bool Hub::isExpected(MessageType type) const {
  return state_ == State::kRunning && isOneOf(type, {MessageType::kControlOpInput, MessageType::kSuspect,
                                                     MessageType::kGoodbye, MessageType::kFailure});
}

Status Hub::handle(size_t member, const Frame& frame) {
  const Link& link = *members_[member].link;
  if (!isExpected(frame.header.type)) return unexpectedFrame(link, frame);
  switch (frame.header.type) {
    case MessageType::kControlOpInput:
      return addOpInput(member, BPS_TRY(decodeFrom<ControlOpInput>(link, frame)));
    case MessageType::kSuspect:
      return addSuspicion(member, BPS_TRY(decodeFrom<Suspect>(link, frame)));
    case MessageType::kGoodbye:
      return memberLeft(member);
    default: {
      const FailureMessage message = BPS_TRY(decodeFrom<FailureMessage>(link, frame));
      return {message.code, message.text};
    }
  }
}

Status Hub::addOpInput(size_t member, ControlOpInput part) {
  const ControlOp kind = part.kind;
  if (ops_->isTooLate(member, part)) {
    refuseSplit(member, part.number, "the other ranks have waited BPS_TIMEOUT for this one");
    return {};
  }
  if (const Status added = ops_->add(member, std::move(part)); !added.ok())
    return Status(mayLose(member) ? Code::kRemote : added.code(), added.message());
  for (size_t gone : ops_->participants(kind)) {
    if (!members_[gone].left) continue;
    const std::optional<std::string> absent = ops_->missingInputText(gone);
    if (absent) return {Code::kRemote, *absent};
  }
  if (ops_->complete(kind)) finishOp(kind);
  return {};
}

// Fails the split of one rank. The communicator goes on.
void Hub::refuseSplit(size_t rank, uint32_t number, const std::string& why) {
  if (rank == 0) events_.answered(ControlOp::kSplit, Status(Code::kRemote, why));
  else if (members_[rank].link) members_[rank].link->send(ControlOpResult{ControlOp::kSplit, number, {}, why});
}

void Hub::finishOp(ControlOp kind) {
  std::vector<Blob> own;
  for (size_t participant : ops_->participants(kind)) {
    ControlOpResult answer = ops_->resultFor(kind, participant);
    if (participant == 0) own = std::move(answer.blobs);
    else if (members_[participant].link) members_[participant].link->send(answer);
  }
  ops_->finish(kind);
  events_.answered(kind, std::move(own));
}

Status Hub::memberLeft(size_t member) {
  if (member < roster_.ranks.size()) ops_->rankLeft(member);
  const std::optional<std::string> awaited = ops_->missingInputText(member);
  if (awaited) return {Code::kRemote, *awaited};
  members_[member].left = true;
  stalls_->onHeartbeat(member, Heartbeat(), 0);
  admission_.flushAndClose(members_[member].link->takeSocket());
  members_[member].link.reset();
  suspicions_.remove(member);
  events_.memberLeft(member);
  if (lost_ > ops_->number(ControlOp::kRecovery) && ops_->complete(ControlOp::kRecovery))
    finishOp(ControlOp::kRecovery);
  broadcast(MessageType::kLeft, encode(Left{static_cast<uint32_t>(member)}));
  return {};
}

// If a server suspects a rank, the communicator can go on without the server. A suspicion that names no member becomes
// the communicator's failure unless direct evidence arrives.
Status Hub::addSuspicion(size_t from, const Suspect& suspect) {
  const size_t suspected = std::min<size_t>(suspect.member, members_.size());
  if (suspected < members_.size() && members_[suspected].left) return {};
  const size_t member = mayLose(from) ? from : suspected;
  if (member < members_.size() && members_[member].left) return {};
  suspicions_.add({member, suspected, suspect.text}, Deadline::in(suspicionWindow(roster_.settings.timeoutMs)));
  return {};
}

Status Hub::checkDeadlines() {
  if (state_ == State::kJoining || state_ == State::kOpening) return checkStart();
  if (const std::optional<std::string> timeoutText = ops_->timeoutText()) return {Code::kRemote, *timeoutText};
  BPS_TRY(checkStalls());
  if (const std::optional<std::string> timeoutText = ops_->splitTimeoutText()) {
    const uint32_t number = ops_->number(ControlOp::kSplit);
    for (size_t rank : ops_->cancelSplit()) refuseSplit(rank, number, *timeoutText);
  }
  const auto missesHeartbeats = [&](size_t member) {
    return member < members_.size() && members_[member].link && members_[member].link->missedHeartbeats();
  };
  while (const std::optional<Suspicion> due = suspicions_.takeDue(missesHeartbeats))
    BPS_TRY(lose(due->member, Status(Code::kRemote, due->text)));
  return {};
}

// Searches for stalled members. Heartbeats wake the hub often enough.
Status Hub::checkStalls() {
  if (!nextStallCheck_.passed()) return {};
  nextStallCheck_ = Deadline::in(std::min(milliseconds(roster_.settings.timeoutMs / 10), roster_.waitReportTime() / 4));
  for (size_t member = 1; member < members_.size(); ++member)
    if (const Link* link = members_[member].link.get())
      stalls_->onHeartbeat(member, link->heartbeat(), link->heartbeats());
  if (lost_ > ops_->number(ControlOp::kRecovery)) stalls_->restart(Deadline::Clock::now());  // nothing moves now
  const std::optional<StallDetector::Stall> stall = stalls_->check(Deadline::Clock::now());
  if (!stall) return {};
  return lose(mayLose(stall->member) ? stall->member : stall->awaited, stall->failure);
}

Status Hub::checkStart() const {
  if (!admission_.deadline().passed()) return {};
  if (!startError_.ok()) return startError_.clone();
  if (!admission_.table().complete()) return {Code::kRemote, admission_.missing()};
  return failure(Code::kRemote, "servers have not opened the job in time: {}", servers_.pending());
}

Status Hub::withOwnPause(const Status& failure) const {
  const std::string pause = pause_.text();
  if (failure.code() != Code::kRemote || pause.empty()) return failure.clone();
  const std::string self = ops_ ? roster_.rankName(0) : admission_.table().name(0);
  return failure.clone().within(fmt::format("{}, the hub, {}", self, pause));
}

void Hub::fail(const Status& why) {
  if (state_ == State::kFailed || state_ == State::kLeaving || state_ == State::kOver) return;
  const Status failure = withOwnPause(why);
  for (RankAdmission::JoinedRank& joined : admission_.takeJoinedRanks())
    members_[joined.rank].link = std::move(joined.link);
  broadcast(MessageType::kFailure, encode(FailureMessage{failure.code(), failure.message()}));
  for (auto& link : servers_.sendFailure(failure)) members_.push_back({std::move(link), false});
  admission_.sendFailure(failure);
  admission_.close();
  rendezvous_.reset();
  ops_.reset();
  suspicions_.clear();
  state_ = State::kFailed;
  failure_ = failure.clone();
  failureDeliveryDeadline_ = Deadline::in(kFailureDeliveryDelay);
}

// Runs after the hub has queued its last frames, which report a failure or a goodbye. By the protocol, a member closes
// its connection only after it has read such a frame. The hub therefore closes each connection that a member has
// closed.
void Hub::drainMembers(const PollSet& set) {
  bool everybody = true;
  for (Member& member : members_) {
    if (!member.link) continue;
    Status status = member.link->step(set);
    for (int turn = 0; turn < kFramesPerStep && status.ok(); ++turn) {
      Result<std::optional<Frame>> frame = member.link->next();
      if (!frame.ok()) status = std::move(frame).status();
      else if (!std::move(frame).value()) break;
    }
    if (!status.ok()) member.link.reset();
    else everybody = false;
  }
  if (!failure_.ok() && (everybody || failureDeliveryDeadline_.passed()))
    events_.failed(std::exchange(failure_, Status()));
  [[maybe_unused]] const Status ignored = admission_.step(set);
  if (!everybody || !admission_.isFlushed()) return;
  const bool leaving = state_ == State::kLeaving;
  state_ = State::kOver;
  if (leaving) events_.leaveDone();
}

void Hub::broadcast(MessageType type, const Blob& payload, size_t except) {
  for (size_t member = 0; member < members_.size(); ++member)
    if (member != except && members_[member].link) members_[member].link->send(type, payload);
}

}  // namespace bps
