#include "src/control/spoke.h"

#include <algorithm>

#include "src/base/format.h"
#include "src/base/log.h"

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
  hub_->send(RoundPart{kind, rounds_[static_cast<size_t>(kind)], patienceMs(deadline), std::move(blobs)});
  pending_ = kind;
  roundDeadline_ = withGrace(deadline);
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
  own_.push_back({member, std::move(failure), Deadline::in(2 * suspicionWindow(roster_.settings.timeoutMs))});
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
  if (pending_) set.wakeAt(roundDeadline_.at());
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
  while (status.ok() && hub_) {
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

Status Spoke::handle(const Frame& frame) {
  const bool running = state_ == State::kRunning || state_ == State::kLeaving;
  switch (frame.header.type) {
    case MessageType::kFailure: {
      const FailureMessage message = BPS_TRY(decode<FailureMessage>(frame.payload));
      return {message.code, message.text};
    }
    case MessageType::kRefusal: {
      const Refusal refusal = BPS_TRY(decode<Refusal>(frame.payload));
      return {refusal.code, refusal.text};
    }
    case MessageType::kRoster:
      if (state_ == State::kAwaitingRoster) return enter(frame);
      break;
    case MessageType::kRoundAnswer:
      if (running) return answer(frame);
      break;
    case MessageType::kLeft:
      if (running) {
        memberLeft(BPS_TRY(decode<Left>(frame.payload)).member);
        return {};
      }
      break;
    case MessageType::kGoodbye:
      if (running) {
        hubSaysGoodbye();
        return {};
      }
      break;
    default:
      break;
  }
  return hub_->protocolError(failure(Code::kRemote, "unexpected message {}", static_cast<int>(frame.header.type)));
}

Status Spoke::enter(const Frame& frame) {
  roster_ = BPS_TRY(decodeRoster(frame.payload));
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
  RoundAnswer answer = BPS_TRY(decode<RoundAnswer>(frame.payload));
  const auto kind = static_cast<size_t>(answer.kind);
  if (pending_ != answer.kind || answer.number != rounds_[kind])
    return hub_->protocolError(Status(Code::kRemote, "an answer to no question"));
  ++rounds_[kind];
  pending_.reset();
  events_.answered(std::move(answer.blobs));
  return {};
}

void Spoke::memberLeft(size_t member) {
  if (member >= left_.size()) return;
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
        failure(Code::kRemote, "{}: {}, the hub, has said goodbye", roundName(*pending_), roster_.rankName(0)));
  pending_.reset();
  std::erase_if(own_, [](const Own& own) { return own.member != kNoMember; });
  if (!own_.empty()) fail(own_.front().failure.clone());
}

void Spoke::checkDeadlines() {
  if (joining() && withGrace(args_.deadline).passed())
    return fail(failure(Code::kRemote, "{} has not answered in time", hub_ ? hub_->name() : "the root"));
  if (pending_ && roundDeadline_.passed())
    return fail(failure(Code::kRemote, "{}: no answer from {} in time", roundName(*pending_), hub_->name()));
  for (const Own& own : own_)
    if (own.deadline.passed()) return fail(own.failure.clone());
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
