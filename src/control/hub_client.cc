#include "src/control/hub_client.h"

#include <algorithm>

#include "src/base/format.h"
#include "src/base/log.h"
#include "src/control/frames.h"

namespace bps {
namespace {

// When the deadline of an operation passes, the hub fails the operation and names the missing ranks. A rank waits this
// much longer than the deadline, so that the hub's error can arrive.
constexpr std::chrono::milliseconds kHubReplyGrace(500);

Deadline withGrace(Deadline deadline) {
  if (deadline.at() == Deadline::never().at()) return deadline;
  return Deadline::in(deadline.at() - Deadline::Clock::now() + kHubReplyGrace);
}

}  // namespace

HubClient::HubClient(HubClientArgs args, ControlNodeEvents& events) : args_(std::move(args)), events_(events) {
  if (args_.id.kind == UniqueId::Kind::kHub) {
    startDialing(args_.id.address);
    return;
  }
  RendezvousRequest request;
  request.rank = args_.join.rank;
  request.nRanks = args_.join.nRanks;
  rendezvous_ =
      std::make_unique<RendezvousClient>(dialArgs(args_.id.address, Purpose::kRendezvous), request, args_.deadline);
  state_ = State::kAskingRendezvous;
}

DialArgs HubClient::dialArgs(const Address& address, Purpose purpose) const {
  return {{address}, args_.credentials, purpose, 0, args_.relays};
}

void HubClient::startDialing(const Address& hub) {
  dialer_ = std::make_unique<Dialer>(dialArgs(hub, Purpose::kJoin), args_.deadline);
  state_ = State::kDialingHub;
}

void HubClient::startOp(ControlOp kind, std::vector<Blob> blobs, Deadline deadline) {
  if (state_ != State::kRunning) return refuseOp(kind);
  const size_t own = isGather(kind) ? 0 : ownItem(kind, roster_, args_.join.rank);
  ops_[static_cast<size_t>(kind)].pending =
      PendingOp{own < blobs.size() ? blobs[own] : Blob(), withGrace(controlOpDeadline(kind, deadline, roster_))};
  hub_->send(ControlOpInput{kind, ops_[static_cast<size_t>(kind)].number, remainingMs(deadline), std::move(blobs)});
}

void HubClient::refuseOp(ControlOp kind) {
  events_.answered(kind, failure(Code::kRemote, "{}: {}, the hub, has left", controlOpName(kind), roster_.rankName(0)));
}

// After the goodbye of the hub or of this rank, no result comes any more.
void HubClient::refusePendingOps() {
  for (size_t kind = 0; kind < kControlOps; ++kind)
    if (std::exchange(ops_[kind].pending, std::nullopt)) refuseOp(static_cast<ControlOp>(kind));
}

void HubClient::report(Status failure) {
  if (eventsDone_) return;
  if (state_ != State::kRunning) return fail(failure);
  hub_->send(FailureMessage{failure.code(), failure.message()});
  holdFailure(kNoMember, std::move(failure));
}

void HubClient::suspect(size_t member, std::string text) {
  const bool gone = member < left_.size() && left_[member];
  if (eventsDone_ || gone) return;
  Status failure(Code::kRemote, text);
  if (state_ == State::kHubLost && member != kNoMember) return loseWithoutHub(member, text);
  if (state_ == State::kHubLeft && member != kNoMember) return;
  if (state_ != State::kRunning) return fail(failure);
  hub_->send(Suspect{static_cast<uint32_t>(member), std::move(text)});
  holdFailure(member, std::move(failure));
}

void HubClient::holdFailure(size_t member, Status failure) {
  const uint32_t timeoutMs = roster_.settings.timeoutMs;
  // The hub waits up to half of the timeout for a suspected member whose heartbeats are missing.
  const std::chrono::milliseconds silence(member != kNoMember ? timeoutMs / 2 : 0);
  heldFailures_.push_back({member, std::move(failure), Deadline::in(2 * suspicionWindow(timeoutMs) + silence)});
}

void HubClient::leave() {
  refusePendingOps();
  eventsDone_ = true;
  heldFailures_.clear();
  if (state_ != State::kRunning) return finish();
  hub_->send(MessageType::kGoodbye);
  state_ = State::kLeaving;
}

void HubClient::finish() {
  hub_.reset();
  state_ = State::kOver;
  if (eventsDone_) events_.leaveDone();
}

void HubClient::watch(PollSet& set) const {
  if (state_ == State::kAskingRendezvous) rendezvous_->watch(set);
  if (state_ == State::kDialingHub) dialer_->watch(set);
  if (hub_) hub_->watch(set);
  if (joining()) set.wakeAt(withGrace(args_.deadline).at());
  for (const Ops& ops : ops_)
    if (ops.pending) set.wakeAt(ops.pending->deadline.at());
  for (const HeldFailure& own : heldFailures_) set.wakeAt(own.deadline.at());
}

void HubClient::step(const PollSet& set) {
  Status status = advance(set);
  if (!status.ok()) return fail(status);
  checkDeadlines();
}

Status HubClient::advance(const PollSet& set) {
  switch (state_) {
    case State::kAskingRendezvous:
      return askRendezvous(set);
    case State::kDialingHub:
      return dialHub(set);
    case State::kAwaitingRoster:
    case State::kRunning:
    case State::kLeaving:
      return receive(set);
    case State::kHubLeft:
    case State::kHubLost:
    case State::kOver:
      return {};
  }
  return {};
}

Status HubClient::askRendezvous(const PollSet& set) {
  const std::optional<Address> hub = BPS_TRY(rendezvous_->step(set));
  if (!hub) return {};
  rendezvous_.reset();
  startDialing(*hub);
  return {};
}

Status HubClient::dialHub(const PollSet& set) {
  Result<Progress> progress = dialer_->step(set);
  if (!progress.ok()) {
    const bool late = args_.deadline.passed();
    return std::move(progress).status().within(late ? args_.hubName + " did not come in time"
                                                    : "refused by " + args_.hubName);
  }
  if (std::move(progress).value() == Progress::kPending) return {};
  Peer peer = dialer_->take();
  const std::string name = args_.hubName + " at " + peer.socket->peer();
  hub_ = std::make_unique<Link>(std::move(peer), name, args_.credentials.timeoutMs);
  args_.join.remainingMs = remainingMs(args_.deadline);
  if (!dialer_->way().hops.empty()) args_.join.via = dialer_->way().hops.front().rank;
  hub_->send(args_.join);
  state_ = State::kAwaitingRoster;
  return {};
}

Status HubClient::receive(const PollSet& set) {
  Status status = withWay(hub_->step(set));
  bool reported = false;  // the hub itself has reported a failure, or broken the protocol
  for (int turn = 0; turn < kFramesPerStep && status.ok() && hub_; ++turn) {
    Result<std::optional<Frame>> frame = hub_->next();
    if (!frame.ok()) {
      status = withWay(std::move(frame).status());
      break;
    }
    const std::optional<Frame> got = std::move(frame).value();
    if (!got) return {};
    status = handle(*got);
    reported = !status.ok();
  }
  const bool running = state_ == State::kRunning;
  if (!status.ok() && !reported && losesHub()) {
    loseHub(status);
    return {};
  }
  if (!status.ok() && running && hub_->silent()) return hub_->declareDead(status, roster_.rankName(args_.join.rank));
  if (state_ != State::kLeaving) return status;
  if (!status.ok()) finish();  // the hub closes the connection after it has read the goodbye
  return {};
}

// True if the process of rank 0 is lost in asynchronous training.
bool HubClient::losesHub() const {
  return state_ == State::kRunning && roster_.settings.parameters && (hub_->broken() || hub_->silent()) &&
         ops_[static_cast<size_t>(ControlOp::kBarrier)].number > 0;
}

void HubClient::loseHub(const Status& why) {
  state_ = State::kHubLost;
  hub_.reset();
  loseWithoutHub(0, why.message());
  refusePendingOps();
  for (HeldFailure& held : std::exchange(heldFailures_, {}))
    if (held.member != kNoMember) loseWithoutHub(held.member, held.failure.message());
}

// Without the hub, each rank finds out by itself which other members are lost.
void HubClient::loseWithoutHub(size_t member, const std::string& why) {
  if (left_[member]) return;
  left_[member] = true;
  const bool rank = member < roster_.ranks.size();
  ServerEvent loss{rank ? ServerEvent::Kind::kRankLost : ServerEvent::Kind::kLost,
                   static_cast<uint32_t>(rank ? member : member - roster_.ranks.size())};
  loss.text = why;
  events_.serverEvent(loss);
}

// A relay that ends takes the connection with it, so the hub may be alive.
Status HubClient::withWay(Status failure) const {
  if (failure.ok() || dialer_->way().hops.empty()) return failure;
  return std::move(failure).within(fmt::format("the connection to {} leads through {}, and broke",
                                               roster_.ranks.empty() ? args_.hubName : roster_.rankName(0),
                                               hopsText(dialer_->way().hops)));
}

bool HubClient::isExpected(MessageType type) const {
  switch (state_) {
    case State::kAwaitingRoster:
      return isOneOf(type, {MessageType::kRoster, MessageType::kRefusal, MessageType::kFailure});
    case State::kRunning:
    case State::kLeaving:
      return isOneOf(type, {MessageType::kControlOpResult, MessageType::kLeft, MessageType::kServerEvent,
                            MessageType::kGoodbye, MessageType::kFailure});
    default:  // in the other states there is no connection to the hub
      return false;
  }
}

Status HubClient::handle(const Frame& frame) {
  if (!isExpected(frame.header.type)) return unexpectedFrame(*hub_, frame);
  switch (frame.header.type) {
    case MessageType::kFailure: {
      const FailureMessage message = BPS_TRY(decodeFrom<FailureMessage>(*hub_, frame));
      return {message.code, message.text};
    }
    case MessageType::kRefusal: {
      const Refusal refusal = BPS_TRY(decodeFrom<Refusal>(*hub_, frame));
      return {refusal.code, refusal.text};
    }
    case MessageType::kRoster:
      return handleRoster(frame);
    case MessageType::kControlOpResult:
      return answer(frame);
    case MessageType::kLeft:
      return handleLeft(frame);
    case MessageType::kServerEvent:
      return handleServerEvent(frame);
    default:  // goodbye
      handleGoodbye();
      return {};
  }
}

Status HubClient::handleRoster(const Frame& frame) {
  Result<Roster> roster = decodeRoster(frame.payload);
  if (!roster.ok()) return hub_->protocolError(roster.error());
  roster_ = std::move(roster).value();
  if (roster_.jobId != hub_->job() || roster_.ranks.size() != args_.join.nRanks)
    return hub_->protocolError(Status(Code::kRemote, "the roster belongs to another communicator"));
  hub_->rename(roster_.rankName(0) + ", the hub,");
  hub_->setTimeout(roster_.settings.timeoutMs);
  left_.resize(roster_.members());
  for (size_t server = 0; server < roster_.servers.size(); ++server)
    left_[roster_.ranks.size() + server] = !roster_.servers[server].present;
  state_ = State::kRunning;
  if (args_.clock != nullptr) hub_->measureClock(args_.clock);
  events_.joined(roster_);
  return {};
}

Status HubClient::answer(const Frame& frame) {
  ControlOpResult answer = BPS_TRY(decodeFrom<ControlOpResult>(*hub_, frame));
  if (Status wrong = checkResult(answer); !wrong.ok()) return hub_->protocolError(wrong);
  ++ops_[static_cast<size_t>(answer.kind)].number;
  ops_[static_cast<size_t>(answer.kind)].pending.reset();
  if (!answer.givenUp.empty()) events_.answered(answer.kind, Status(Code::kRemote, std::move(answer.givenUp)));
  else events_.answered(answer.kind, std::move(answer.blobs));
  return {};
}

Status HubClient::checkResult(const ControlOpResult& answer) const {
  const auto& pending = ops_[static_cast<size_t>(answer.kind)].pending;
  if (!pending || answer.number != ops_[static_cast<size_t>(answer.kind)].number)
    return failure(Code::kRemote, "{} {}: unexpected result", controlOpName(answer.kind), answer.number);
  if (!answer.givenUp.empty()) {
    if (answer.kind == ControlOp::kSplit && answer.blobs.empty()) return {};
    return failure(Code::kRemote, "{} {}: cancelled, but only a split can be", controlOpName(answer.kind),
                   answer.number);
  }
  const size_t items = resultItems(answer.kind, roster_);
  if (answer.blobs.size() != items)
    return failure(Code::kRemote, "{}: received {} items instead of {}", controlOpName(answer.kind),
                   answer.blobs.size(), items);
  for (const Blob& blob : answer.blobs)
    if (blob.size() > kMaxItemBytes)
      return failure(Code::kRemote, "{}: received an item of {} bytes, the limit is {}", controlOpName(answer.kind),
                     blob.size(), kMaxItemBytes);
  if (items > 0 && answer.blobs[ownItem(answer.kind, roster_, args_.join.rank)] != pending->mine)
    return failure(Code::kRemote, "{}: this rank's own item has changed", controlOpName(answer.kind));
  return {};
}

Status HubClient::handleLeft(const Frame& frame) {
  const size_t member = BPS_TRY(decodeFrom<Left>(*hub_, frame)).member;
  if (member == 0 || member >= left_.size() || left_[member])
    return hub_->protocolError(failure(Code::kRemote, "unexpected goodbye of member {} of {}", member, left_.size()));
  memberLeft(member);
  return {};
}

void HubClient::memberLeft(size_t member) {
  left_[member] = true;
  dropHeldFailures(member);
  events_.memberLeft(member);
}

void HubClient::dropHeldFailures(size_t member) {
  std::erase_if(heldFailures_, [&](const HeldFailure& own) { return own.member == member; });
}

// Checks that the event is possible for this server. The CallScheduler checks the order of the events of a change.
Status HubClient::handleServerEvent(const Frame& frame) {
  using Kind = ServerEvent::Kind;
  const ServerEvent event = BPS_TRY(decodeFrom<ServerEvent>(*hub_, frame));
  const bool ofRank = event.kind == Kind::kRankLost;
  const size_t member = ofRank ? event.server : roster_.ranks.size() + event.server;
  const bool known = member < (ofRank ? roster_.ranks.size() : roster_.members()), present = known && !left_[member];
  const bool joins = event.kind == Kind::kJoining;
  const bool begins = joins || event.kind == Kind::kLeaving || event.kind == Kind::kNewRate;
  const bool loses = event.kind == Kind::kLost || ofRank;
  const bool possible = loses    ? present && (!ofRank || (roster_.settings.parameters && member != args_.join.rank))
                        : begins ? !change_ && present != joins
                                 : change_ && change_->server == event.server;
  if (!known || !possible)
    return hub_->protocolError(
        failure(Code::kRemote, "unexpected event {} of server {}", static_cast<int>(event.kind), event.server));
  if (loses) {
    left_[member] = true;
    dropHeldFailures(member);  // suspicions of the server no longer matter
  }
  if (joins) roster_.joinedNames.set(event.server, event.text);
  if (event.kind == Kind::kAt && change_->kind == Kind::kJoining) left_[member] = false;
  if (event.kind == Kind::kEnd && change_->kind == Kind::kLeaving) left_[member] = true;
  if (begins) change_ = event;
  else if (event.kind == Kind::kEnd || event.kind == Kind::kAborted) change_.reset();
  events_.serverEvent(event);
  return {};
}

// After its goodbye the hub sends nothing more, so the failures that this rank holds back become final. Suspicions of
// members are dropped. The hub has completed its calls, so the other ranks leave as well, but the hub no longer relays
// their goodbyes.
void HubClient::handleGoodbye() {
  if (state_ == State::kLeaving) return finish();
  state_ = State::kHubLeft;
  hub_.reset();
  memberLeft(0);
  events_.hubLeft();
  refusePendingOps();
  std::erase_if(heldFailures_, [](const HeldFailure& own) { return own.member != kNoMember; });
  if (!heldFailures_.empty()) fail(heldFailures_.front().failure.clone());
}

void HubClient::checkDeadlines() {
  if (joining() && withGrace(args_.deadline).passed())
    return fail(failure(Code::kRemote, "{} did not answer in time", hub_ ? hub_->name() : "the rendezvous server"));
  for (size_t kind = 0; kind < kControlOps; ++kind)
    if (ops_[kind].pending && ops_[kind].pending->deadline.passed())
      return fail(failure(Code::kRemote, "{}: no answer from {} in time", controlOpName(static_cast<ControlOp>(kind)),
                          hub_->name()));
  for (const HeldFailure& own : heldFailures_)
    if (own.deadline.passed()) {
      const Status failure = own.failure.clone();
      if (hub_) hub_->sendFailure(failure);
      return fail(failure);
    }
}

void HubClient::fail(const Status& failure) {
  for (Ops& ops : ops_) ops.pending.reset();
  heldFailures_.clear();
  rendezvous_.reset();
  dialer_.reset();
  hub_.reset();
  const bool deliver = !eventsDone_;
  state_ = State::kOver;
  eventsDone_ = true;
  if (deliver) events_.failed(failure);
}

bool HubClient::isFlushed() const { return !hub_ || (hub_->flushed() && heldFailures_.empty()); }

}  // namespace bps
