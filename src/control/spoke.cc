#include "src/control/spoke.h"

#include <algorithm>

#include "src/base/format.h"
#include "src/base/log.h"
#include "src/control/frames.h"

namespace bps {
namespace {

// The hub acts at the deadline and names the missing; a spoke gives its word this long to arrive.
constexpr std::chrono::milliseconds kGrace(500);

Deadline withGrace(Deadline deadline) {
  if (deadline.at() == Deadline::never().at()) return deadline;
  return Deadline::in(deadline.at() - Deadline::Clock::now() + kGrace);
}

}  // namespace

Spoke::Spoke(SpokeArgs args, StarEvents& events) : args_(std::move(args)), events_(events) {
  if (args_.id.kind == UniqueId::Kind::kHub) {
    startDialing(args_.id.address);
    return;
  }
  AskRoot question;
  question.rank = args_.join.rank;
  question.nRanks = args_.join.nRanks;
  root_ = std::make_unique<RootCall>(DialArgs{{args_.id.address}, args_.credentials, Purpose::kRedirect, 0}, question,
                                     args_.deadline);
  state_ = State::kAskingRoot;
}

void Spoke::startDialing(const Address& hub) {
  dialer_ = std::make_unique<Dialer>(DialArgs{{hub}, args_.credentials, Purpose::kJoin, 0}, args_.deadline);
  state_ = State::kDialingHub;
}

void Spoke::round(RoundKind kind, std::vector<Blob> blobs, Deadline deadline) {
  if (state_ != State::kRunning) {
    return events_.answered(
        failure(Code::kRemote, "{}: {}, the hub, has said goodbye", roundName(kind), roster_.rankName(0)));
  }
  const size_t own = gathers(kind) ? 0 : ownItem(kind, roster_, args_.join.rank);
  pending_ = Round{kind, own < blobs.size() ? blobs[own] : Blob(), withGrace(roundEnd(kind, deadline, roster_))};
  hub_->send(RoundPart{kind, rounds_[static_cast<size_t>(kind)], patienceMs(deadline), std::move(blobs)});
}

void Spoke::report(Status failure) {
  if (silent_) return;
  if (state_ != State::kRunning) return fail(failure);
  hub_->send(FailureMessage{failure.code(), failure.message()});
  keepOwn(kNoMember, std::move(failure));
}

void Spoke::suspect(size_t member, std::string text) {
  const bool gone = member < left_.size() && left_[member];
  if (silent_ || gone) return;
  Status failure(Code::kRemote, text);
  if (state_ == State::kHubLeft && member != kNoMember) return;
  if (state_ != State::kRunning) return fail(failure);
  hub_->send(Suspect{static_cast<uint32_t>(member), std::move(text)});
  keepOwn(member, std::move(failure));
}

void Spoke::keepOwn(size_t member, Status failure) {
  const uint32_t timeoutMs = roster_.settings.timeoutMs;
  // The hub waits as long for a member whose heartbeats are missing.
  const std::chrono::milliseconds silence(member != kNoMember ? timeoutMs / 2 : 0);
  own_.push_back({member, std::move(failure), Deadline::in(2 * suspicionWindow(timeoutMs) + silence)});
}

void Spoke::leave() {
  silent_ = true;
  own_.clear();
  if (state_ != State::kRunning) return over();
  hub_->send(MessageType::kGoodbye);
  state_ = State::kLeaving;
}

void Spoke::over() {
  hub_.reset();
  state_ = State::kOver;
  if (silent_) events_.farewell();
}

void Spoke::watch(PollSet& set) const {
  if (state_ == State::kAskingRoot) root_->watch(set);
  if (state_ == State::kDialingHub) dialer_->watch(set);
  if (hub_) hub_->watch(set);
  if (joining()) set.wakeAt(withGrace(args_.deadline).at());
  if (pending_) set.wakeAt(pending_->deadline.at());
  for (const Own& own : own_) set.wakeAt(own.deadline.at());
}

void Spoke::step(const PollSet& set) {
  Status status = advance(set);
  if (!status.ok()) return fail(status);
  checkDeadlines();
}

Status Spoke::advance(const PollSet& set) {
  switch (state_) {
    case State::kAskingRoot:
      return askRoot(set);
    case State::kDialingHub:
      return dialHub(set);
    case State::kAwaitingRoster:
    case State::kRunning:
    case State::kLeaving:
      return listen(set);
    case State::kHubLeft:
    case State::kOver:
      return {};
  }
  return {};
}

Status Spoke::askRoot(const PollSet& set) {
  const std::optional<Address> hub = BPS_TRY(root_->step(set));
  if (!hub) return {};
  root_.reset();
  startDialing(*hub);
  return {};
}

Status Spoke::dialHub(const PollSet& set) {
  Result<Progress> progress = dialer_->step(set);
  if (!progress.ok()) {
    const bool late = args_.deadline.passed();
    return std::move(progress).status().within(late ? "rank 0 has not come in time" : "refused by rank 0");
  }
  if (std::move(progress).value() == Progress::kPending) return {};
  Peer peer = dialer_->take();
  dialer_.reset();
  const std::string name = "rank 0 at " + peer.socket->peer();
  hub_ = std::make_unique<Link>(std::move(peer), name, args_.credentials.timeoutMs);
  args_.join.patienceMs = patienceMs(args_.deadline);
  hub_->send(args_.join);
  state_ = State::kAwaitingRoster;
  return {};
}

Status Spoke::listen(const PollSet& set) {
  Status status = hub_->tick(set);
  for (int turn = 0; turn < kFramesPerTurn && status.ok() && hub_; ++turn) {
    Result<std::optional<Frame>> frame = hub_->next();
    if (!frame.ok()) {
      status = std::move(frame).status();
      break;
    }
    const std::optional<Frame> got = std::move(frame).value();
    if (!got) return {};
    status = handle(*got);
  }
  const bool running = state_ == State::kRunning;
  if (!status.ok() && running && hub_->silent()) return hub_->giveUp(status, roster_.rankName(args_.join.rank));
  if (state_ != State::kLeaving) return status;
  if (!status.ok()) over();  // the hub has closed: it has read our goodbye
  return {};
}

bool Spoke::due(MessageType type) const {
  switch (state_) {
    case State::kAwaitingRoster:
      return isOneOf(type, {MessageType::kRoster, MessageType::kRefusal, MessageType::kFailure});
    case State::kRunning:
    case State::kLeaving:
      return isOneOf(type,
                     {MessageType::kRoundAnswer, MessageType::kLeft, MessageType::kGoodbye, MessageType::kFailure});
    default:  // no connection with the hub
      return false;
  }
}

Status Spoke::handle(const Frame& frame) {
  if (!due(frame.header.type)) return notDue(*hub_, frame);
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
      return enter(frame);
    case MessageType::kRoundAnswer:
      return answer(frame);
    case MessageType::kLeft:
      return left(frame);
    default:  // a goodbye
      hubSaysGoodbye();
      return {};
  }
}

Status Spoke::enter(const Frame& frame) {
  Result<Roster> roster = decodeRoster(frame.payload);
  if (!roster.ok()) return hub_->protocolError(roster.error());
  roster_ = std::move(roster).value();
  if (roster_.jobId != hub_->job() || roster_.ranks.size() != args_.join.nRanks)
    return hub_->protocolError(Status(Code::kRemote, "the roster is another communicator's"));
  hub_->rename(roster_.rankName(0) + ", the hub,");
  hub_->setTimeout(roster_.settings.timeoutMs);
  left_.resize(roster_.members());
  state_ = State::kRunning;
  events_.joined(roster_);
  return {};
}

Status Spoke::answer(const Frame& frame) {
  RoundAnswer answer = BPS_TRY(decodeFrom<RoundAnswer>(*hub_, frame));
  if (Status wrong = checkAnswer(answer); !wrong.ok()) return hub_->protocolError(wrong);
  ++rounds_[static_cast<size_t>(answer.kind)];
  pending_.reset();
  if (!answer.givenUp.empty()) events_.answered(Status(Code::kRemote, std::move(answer.givenUp)));
  else events_.answered(std::move(answer.blobs));
  return {};
}

Status Spoke::checkAnswer(const RoundAnswer& answer) const {
  if (!pending_ || pending_->kind != answer.kind || answer.number != rounds_[static_cast<size_t>(answer.kind)])
    return failure(Code::kRemote, "{} {}: an answer to no question", roundName(answer.kind), answer.number);
  if (!answer.givenUp.empty()) {
    if (answer.kind == RoundKind::kSplit && answer.blobs.empty()) return {};
    return failure(Code::kRemote, "{} {}: only a split can be given up", roundName(answer.kind), answer.number);
  }
  const size_t items = itemsAnswered(answer.kind, roster_);
  if (answer.blobs.size() != items)
    return failure(Code::kRemote, "{}: {} items came instead of {}", roundName(answer.kind), answer.blobs.size(),
                   items);
  for (const Blob& blob : answer.blobs)
    if (blob.size() > kMostItemBytes)
      return failure(Code::kRemote, "{}: an item of {} bytes, {} are allowed", roundName(answer.kind), blob.size(),
                     kMostItemBytes);
  if (items > 0 && answer.blobs[ownItem(answer.kind, roster_, args_.join.rank)] != pending_->mine)
    return failure(Code::kRemote, "{}: this rank's own item came back changed", roundName(answer.kind));
  return {};
}

Status Spoke::left(const Frame& frame) {
  const size_t member = BPS_TRY(decodeFrom<Left>(*hub_, frame)).member;
  if (member == 0 || member >= left_.size() || left_[member])
    return hub_->protocolError(failure(Code::kRemote, "member {} of {} cannot leave now", member, left_.size()));
  memberLeft(member);
  return {};
}

void Spoke::memberLeft(size_t member) {
  left_[member] = true;
  std::erase_if(own_, [&](const Own& own) { return own.member == member; });
  events_.memberLeft(member);
}

// Its word is not to be had any more. What this rank knows of itself stands. A broken connection proves nothing now:
// the hub has completed its calls and left, so the others are on their way out too, and nobody relays their goodbyes.
void Spoke::hubSaysGoodbye() {
  if (state_ == State::kLeaving) return over();
  state_ = State::kHubLeft;
  hub_.reset();
  memberLeft(0);
  events_.hubLeft();
  if (pending_)
    events_.answered(
        failure(Code::kRemote, "{}: {}, the hub, has said goodbye", roundName(pending_->kind), roster_.rankName(0)));
  pending_.reset();
  std::erase_if(own_, [](const Own& own) { return own.member != kNoMember; });
  if (!own_.empty()) fail(own_.front().failure.clone());
}

void Spoke::checkDeadlines() {
  if (joining() && withGrace(args_.deadline).passed())
    return fail(failure(Code::kRemote, "{} has not answered in time", hub_ ? hub_->name() : "the root"));
  if (pending_ && pending_->deadline.passed())
    return fail(failure(Code::kRemote, "{}: no answer from {} in time", roundName(pending_->kind), hub_->name()));
  for (const Own& own : own_)
    if (own.deadline.passed()) {
      const Status failure = own.failure.clone();
      if (hub_) hub_->tell(failure);
      return fail(failure);
    }
}

void Spoke::fail(const Status& failure) {
  pending_.reset();
  own_.clear();
  root_.reset();
  dialer_.reset();
  hub_.reset();
  const bool tell = !silent_;
  state_ = State::kOver;
  silent_ = true;
  if (tell) events_.failed(failure);
}

bool Spoke::quiet() const { return !hub_ || (hub_->flushed() && own_.empty()); }

}  // namespace bps
