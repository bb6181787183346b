#include "src/control/hub/hub.h"

#include <algorithm>

#include "src/base/format.h"
#include "src/base/log.h"
#include "src/control/frames.h"

namespace bps {
namespace {

// The time between sending a failure to the other members and reporting the failure to the caller in rank 0.
constexpr std::chrono::milliseconds kFailureDeliveryDelay(300);
// How long the hub waits for further losses if connections lead through relays.
constexpr std::chrono::milliseconds kLossDelay(300);

}  // namespace

using std::chrono::milliseconds;

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

void Hub::reply(ServerReply reply) {
  if (state_ != State::kRunning || !changes_) return;
  const Status status = changes_->onReply(0, std::move(reply));
  if (!status.ok()) fail(status);
}

void Hub::leave() {
  if (changes_ && state_ == State::kRunning) changes_->onRankLeft(0);  // no rank must wait for the end of a change
  changes_.reset();
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
  for (size_t member = 0; member < members_.size(); ++member)
    if (members_[member].link && !losses_.has(member)) members_[member].link->watch(set);
  set.wakeAt(losses_.deadline().at());
  admission_.watch(set);
  servers_.watch(set);
  if (changes_ && ops_->serversConfirmed()) changes_->watch(set);
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
      if (changes_ && ops_->serversConfirmed()) changes_->step(set);
      return admission_.step(set);  // closes the connections of ranks that have left
  }
}

Status Hub::receive(const PollSet& set) {
  for (size_t member = 1; member < members_.size(); ++member) {
    if (!members_[member].link || losses_.has(member)) continue;
    const Status received = receiveFrom(member, set);
    if (!received.ok() && !holdLoss(member, received)) BPS_TRY(lose(member, received));
  }
  return {};
}

// If connections lead through relays, the member may have been lost with its relay. Silent members are noticed at
// different times, which are up to a heartbeat interval apart.
bool Hub::holdLoss(size_t member, const Status& why) {
  const Link* link = members_[member].link.get();
  if (!losses_.relayed() || link == nullptr || (!link->silent() && !link->broken())) return false;
  const uint32_t via = admission_.table().via(member);
  const bool another = via != Join::kDirect && via != 0;
  const std::string way = !another ? "" : "; its connection to rank 0 leads through " + nameOf(via);
  const milliseconds delay = link->silent() ? milliseconds(args_.settings.timeoutMs / 8) : kLossDelay;
  losses_.add(member, Status(why.code(), why.message() + way), Deadline::in(delay));
  return true;
}

// Goes on without a server, or without a rank in asynchronous training. Returns the failure if it is not their loss.
Status Hub::lose(size_t member, const Status& why) {
  const bool own = mayLoseRank(member) || why.code() == Code::kRemote || why.code() == Code::kSystem;
  if (!own || !(mayLose(member) || mayLoseRank(member))) return why.clone();
  if (members_[member].left) return {};
  if (member < roster_.ranks.size()) {
    // After a pause of this process, the others may train on without it.
    if (!pause_.text().empty()) return why.clone();
    loseRank(member, why);
    return {};
  }
  const auto server = static_cast<uint32_t>(member - roster_.ranks.size());
  members_[member].link->sendFailure(
      failure(Code::kRemote, "{} goes on without this server: {}", roster_.rankName(0), why.message()));
  members_[member].link.reset();
  memberGone(member);
  if (changes_) {
    ++lost_;
    changes_->onLost(server);
  }
  ServerEvent loss{ServerEvent::Kind::kLost, server};
  loss.text = why.message();
  for (size_t rank = 0; rank < roster_.ranks.size(); ++rank) tell(rank, loss);
  return {};
}

// Asynchronous training goes on without the rank.
void Hub::loseRank(size_t rank, const Status& why) {
  members_[rank].link->sendFailure(
      failure(Code::kRemote, "{} goes on without this rank: {}", roster_.rankName(0), why.message()));
  members_[rank].link.reset();
  memberGone(rank);
  members_[rank].lost = true;
  ServerEvent loss{ServerEvent::Kind::kRankLost, static_cast<uint32_t>(rank)};
  loss.text = why.message();
  for (size_t other = 0; other < roster_.ranks.size(); ++other) tell(other, loss);
  for (size_t server = roster_.ranks.size(); server < members_.size(); ++server)
    if (members_[server].link) members_[server].link->send(Left{static_cast<uint32_t>(rank)});
  ops_->rankLost(rank);
  for (size_t kind = 0; kind < kControlOps; ++kind)
    if (ops_->begun(static_cast<ControlOp>(kind)) && ops_->complete(static_cast<ControlOp>(kind)))
      finishOp(static_cast<ControlOp>(kind));
}

void Hub::memberGone(size_t member) {
  members_[member].left = true;
  stalls_->onHeartbeat(member, Heartbeat(), 0);
  suspicions_.remove(member);
}

void Hub::tell(size_t rank, const ServerEvent& event) {
  if (rank == 0) events_.serverEvent(event);
  else if (members_[rank].link) members_[rank].link->send(event);
}

void Hub::takeIn(size_t server, std::unique_ptr<Link> link) {
  Member& member = members_[roster_.ranks.size() + server];
  member.link = std::move(link);
  member.left = false;
}

void Hub::sayGoodbye(size_t server) {
  const size_t member = roster_.ranks.size() + server;
  members_[member].link->send(MessageType::kGoodbye);
  admission_.flushAndClose(members_[member].link->takeSocket());
  members_[member].link.reset();
  memberGone(member);
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
  return state_ == State::kRunning &&
         isOneOf(type, {MessageType::kControlOpInput, MessageType::kSuspect, MessageType::kGoodbye,
                        MessageType::kFailure, MessageType::kServerReply, MessageType::kDrain});
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
      // The ranks still use the server, so it has ended its part because its connections broke.
      if (mayLose(member) && !anyRankLeft()) return {Code::kRemote, roster_.memberName(member) + " has ended its part"};
      return memberLeft(member);
    case MessageType::kServerReply:
      if (member >= roster_.ranks.size() || !changes_) return unexpectedFrame(link, frame);
      return changes_->onReply(member, BPS_TRY(decodeFrom<ServerReply>(link, frame)));
    case MessageType::kDrain:
      if (member < roster_.ranks.size() || !frame.payload.empty()) return unexpectedFrame(link, frame);
      if (!changes_) return {Code::kRemote, roster_.memberName(member) + " was asked to end"};
      changes_->onDrain(member - roster_.ranks.size());
      return {};
    default: {
      const FailureMessage message = BPS_TRY(decodeFrom<FailureMessage>(link, frame));
      return {message.code, message.text};
    }
  }
}

bool Hub::anyRankLeft() const {
  const auto ranks = members_.begin() + static_cast<std::ptrdiff_t>(roster_.ranks.size());
  return std::any_of(members_.begin(), ranks, [](const Member& member) { return member.left && !member.lost; });
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
  if (kind == ControlOp::kRecovery) restartStalls();
  events_.answered(kind, std::move(own));
}

Status Hub::memberLeft(size_t member) {
  if (member < roster_.ranks.size()) ops_->rankLeft(member);
  const std::optional<std::string> awaited = ops_->missingInputText(member);
  if (awaited) return {Code::kRemote, *awaited};
  admission_.flushAndClose(members_[member].link->takeSocket());
  members_[member].link.reset();
  memberGone(member);
  if (changes_ && member < roster_.ranks.size()) changes_->onRankLeft(member);
  if (changes_ && member >= roster_.ranks.size()) changes_->onGoodbye(member - roster_.ranks.size());
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
  const bool hubSuspected = roster_.settings.parameters && suspected == 0 && from != 0;
  const size_t member = mayLose(from) || hubSuspected ? from : suspected;
  if (member < members_.size() && members_[member].left) return {};
  suspicions_.add({member, suspected, from, suspect.text}, Deadline::in(suspicionWindow(roster_.settings.timeoutMs)));
  return {};
}

Status Hub::checkDeadlines() {
  BPS_TRY(losses_.due([&](size_t member) { return suspicions_.suspects(member); }));
  if (!losses_.empty()) return {};  // other failures are consequences
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
  if (!nextStallCheck_.passed() || roster_.settings.parameters) return {};
  nextStallCheck_ = Deadline::in(std::min(milliseconds(roster_.settings.timeoutMs / 10), roster_.waitReportTime() / 4));
  for (size_t member = 1; member < members_.size(); ++member)
    if (const Link* link = members_[member].link.get())
      stalls_->onHeartbeat(member, link->heartbeat(), link->heartbeats());
  // A broken connection soon stops all lanes, so until the suspicion is decided, no other two members are blamed.
  if (lost_ > ops_->number(ControlOp::kRecovery) || !suspicions_.empty()) restartStalls();
  const std::optional<StallDetector::Stall> stall = stalls_->check(Deadline::Clock::now());
  if (!stall) return {};
  return lose(mayLose(stall->member) ? stall->member : stall->awaited, stall->failure);
}

// Nothing moves during a recovery, nor while the ranks connect with each other after it.
void Hub::restartStalls() { stalls_->restart(Deadline::Clock::now() + milliseconds(roster_.settings.serverTimeoutMs)); }

Status Hub::withOwnPause(const Status& failure) const {
  const std::string pause = pause_.text();
  if (failure.code() != Code::kRemote || pause.empty()) return failure.clone();
  return failure.clone().within(fmt::format("{}, the hub, {}", nameOf(0), pause));
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
  changes_.reset();
  suspicions_.clear();
  losses_ = {};
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
