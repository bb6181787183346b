#include "src/control/hub/hub.h"

#include <algorithm>

#include "src/base/format.h"
#include "src/base/log.h"
#include "src/control/frames.h"
#include "src/control/keys/secret.h"
#include "src/control/root/root.h"

namespace bps {
namespace {

// How long the others have to hear of a failure before this rank does.
constexpr std::chrono::milliseconds kOthersFirst(300);
// A suspicion waits for its member's silence, or heartbeat, by looking so often.
constexpr std::chrono::milliseconds kNextLook(20);

}  // namespace

using std::chrono::milliseconds;

Result<std::unique_ptr<Hub>> Hub::create(HubArgs args, StarEvents& events) {
  args.servers.job = randomJobId();
  const bool redirected = args.id.kind == UniqueId::Kind::kRedirect;
  if (args.join.nRanks == 1) {
    if (redirected) endRoot(args.id.address);
    return std::unique_ptr<Hub>(new Hub(std::move(args), std::nullopt, events));
  }
  Address address = args.id.address;
  if (redirected) {
    address = BPS_TRY(selectInterfaces(args.interfaces)).front().address;
    address.setPort(0);
  }
  UniqueFd listener = BPS_TRY(listenOn(address, args.ports, Doorman::kBacklog));
  Doorman doorman = BPS_TRY(Doorman::create(std::move(listener), args.credentials, Purpose::kJoin, args.servers.job));
  address = BPS_TRY(doorman.address());
  std::unique_ptr<Hub> hub(new Hub(std::move(args), std::move(doorman), events));
  if (redirected) hub->tellRoot(address);
  return hub;
}

Hub::Hub(HubArgs args, std::optional<Doorman> doorman, StarEvents& events)
    : args_(std::move(args)),
      events_(events),
      meeting_(args_.join, std::move(doorman), args_.credentials.timeoutMs, args_.deadline),
      servers_(args_.servers),
      pause_(args_.settings.timeoutMs),
      members_(args_.join.nRanks) {
  cannotStart(std::exchange(args_.unable, Status()));
}

void Hub::cannotStart(Status why) {
  if (why.ok() || !unable_.ok()) return;
  if (!meeting_.table().complete()) logWarn(Subsystem::kInit, "cannot start: {}", why.message());
  unable_ = std::move(why);
}

void Hub::tellRoot(const Address& hub) {
  AskRoot word;
  word.nRanks = args_.join.nRanks;
  word.isHub = true;
  word.hub = hub;
  const DialArgs dial{{args_.id.address}, args_.credentials, Purpose::kRedirect, 0};
  root_ = std::make_unique<RootCall>(dial, word, args_.deadline);
}

void Hub::round(RoundKind kind, std::vector<Blob> blobs, Deadline deadline) {
  pause_.turn();
  if (state_ != State::kRunning) return;
  const uint32_t number = ownRounds_[static_cast<size_t>(kind)]++;
  const Status status = addPart(0, RoundPart{kind, number, patienceMs(deadline), std::move(blobs)});
  if (!status.ok()) fail(status);
}

void Hub::report(Status failure) {
  pause_.turn();
  fail(failure);
}

void Hub::suspect(size_t member, std::string text) {
  pause_.turn();
  if (state_ != State::kRunning) return;
  const Status status = addSuspicion(Suspect{static_cast<uint32_t>(member), std::move(text)});
  if (!status.ok()) fail(status);
}

void Hub::leave() {
  if (state_ == State::kRunning) {
    broadcast(MessageType::kGoodbye, {});
    state_ = State::kLeaving;
    return;
  }
  if (state_ != State::kLeaving) events_.farewell();
}

void Hub::watch(PollSet& set) const {
  if (state_ == State::kOver) return;
  pause_.watch(set);
  for (const Member& member : members_)
    if (member.link) member.link->watch(set);
  meeting_.watch(set);
  servers_.watch(set);
  if (root_) root_->watch(set);
  if (state_ == State::kMeeting || state_ == State::kOpening) set.wakeAt(meeting_.deadline().at());
  if (rounds_) set.wakeAt(rounds_->deadline().at());
  for (const Suspicion& suspicion : suspicions_) set.wakeAt(suspicion.deadline.at());
  if (!failure_.ok()) set.wakeAt(Deadline::in(kOthersFirst / 100).at());
  // Everything that needs no sockets (a communicator of one rank) happens in the first turn.
  if (state_ == State::kMeeting && meeting_.table().size() == 1) set.wakeAt(Deadline::Clock::now());
}

void Hub::step(const PollSet& set) {
  pause_.turn();
  if (state_ == State::kFailed || state_ == State::kLeaving) return seeOff(set);
  if (state_ == State::kOver) return;
  Status status = advance(set);
  if (status.ok()) status = checkDeadlines();
  if (!status.ok()) fail(status);
}

Status Hub::advance(const PollSet& set) {
  BPS_TRY(listen(set));
  switch (state_) {
    case State::kMeeting:
      return meet(set);
    case State::kOpening:
      BPS_TRY(servers_.step(set));
      return servers_.agreed() ? begin() : Status();
    default:
      return meeting_.step(set);  // sees off who has left
  }
}

Status Hub::meet(const PollSet& set) {
  if (root_) {
    const std::optional<Address> told = BPS_TRY(root_->step(set));
    if (told) root_.reset();
  }
  BPS_TRY(meeting_.step(set));
  for (Meeting::Arrival& arrival : meeting_.takeArrivals()) members_[arrival.rank].link = std::move(arrival.link);
  if (unable_.ok() && !servers_.started() && meeting_.table().severalMachines()) {
    const auto timeout = milliseconds(args_.credentials.timeoutMs);
    const auto half = started_.at() + timeout / 2 - Deadline::Clock::now();
    servers_.start(Deadline::in(std::max<Deadline::Clock::duration>(half, timeout / 10)));
  }
  if (unable_.ok()) cannotStart(servers_.step(set));
  if (!meeting_.table().complete()) return {};
  if (!unable_.ok()) return unable_.clone();
  if (!servers_.settled()) return {};
  return open();
}

Status Hub::open() {
  // A rank that has the roster may start the next communicator at the same address: it must not find this listener.
  meeting_.close();
  BPS_TRY(checkServersServe());
  servers_.propose(meeting_.table().roster(args_.servers.job, args_.settings));
  state_ = State::kOpening;
  return servers_.agreed() ? begin() : Status();
}

Status Hub::checkServersServe() const {
  const bool named = !args_.servers.targets.empty(), several = meeting_.table().severalMachines();
  if (several && args_.servers.required && !named)
    return {Code::kInvalidArgument, "BPS_REQUIRE_SERVERS=1, but BPS_SERVERS names none"};
  if (several || !named) return {};
  constexpr const char* kWhy = "all ranks are on one machine, and servers take part between machines only";
  if (args_.servers.required) return failure(Code::kInvalidUsage, "BPS_REQUIRE_SERVERS=1, but {}", kWhy);
  logWarn(Subsystem::kInit, "BPS_SERVERS is not used: {}", kWhy);
  return {};
}

Status Hub::begin() {
  roster_ = servers_.roster();
  for (auto& link : servers_.begin()) members_.push_back({std::move(link), false});
  rounds_.emplace(roster_);
  waits_.emplace(roster_);
  const Blob roster = encode(roster_);
  for (size_t rank = 1; rank < roster_.ranks.size(); ++rank) {
    members_[rank].link->send(MessageType::kRoster, roster);
    members_[rank].link->setTimeout(roster_.settings.timeoutMs);
  }
  state_ = State::kRunning;
  events_.joined(roster_);
  return {};
}

Status Hub::listen(const PollSet& set) {
  for (size_t member = 1; member < members_.size(); ++member)
    if (members_[member].link) BPS_TRY(listenTo(member, set));
  return {};
}

Status Hub::listenTo(size_t member, const PollSet& set) {
  BPS_TRY(members_[member].link->tick(set));
  for (int turn = 0; turn < kFramesPerTurn && members_[member].link; ++turn) {
    const std::optional<Frame> frame = BPS_TRY(members_[member].link->next());
    if (!frame) return {};
    BPS_TRY(handle(member, *frame));
  }
  return {};
}

bool Hub::due(MessageType type) const {
  return state_ == State::kRunning &&
         isOneOf(type, {MessageType::kRoundPart, MessageType::kSuspect, MessageType::kGoodbye, MessageType::kFailure});
}

Status Hub::handle(size_t member, const Frame& frame) {
  const Link& link = *members_[member].link;
  if (!due(frame.header.type)) return notDue(link, frame);
  switch (frame.header.type) {
    case MessageType::kRoundPart:
      return addPart(member, BPS_TRY(decodeFrom<RoundPart>(link, frame)));
    case MessageType::kSuspect:
      return addSuspicion(BPS_TRY(decodeFrom<Suspect>(link, frame)));
    case MessageType::kGoodbye:
      return memberLeft(member);
    default: {
      const FailureMessage message = BPS_TRY(decodeFrom<FailureMessage>(link, frame));
      return {message.code, message.text};
    }
  }
}

Status Hub::addPart(size_t member, RoundPart part) {
  const RoundKind kind = part.kind;
  if (rounds_->comesTooLate(member, part)) {
    refuseSplit(member, part.number, "the other ranks have waited BPS_TIMEOUT for this one");
    return {};
  }
  BPS_TRY(rounds_->add(member, std::move(part)));
  for (size_t gone : rounds_->participants(kind)) {
    if (!members_[gone].left) continue;
    const std::optional<std::string> absent = rounds_->waitingFor(gone);
    if (absent) return {Code::kRemote, *absent};
  }
  if (rounds_->complete(kind)) finishRound(kind);
  return {};
}

// The communicator goes on.
void Hub::refuseSplit(size_t rank, uint32_t number, const std::string& why) {
  if (rank == 0) events_.answered(Status(Code::kRemote, why));
  else if (members_[rank].link) members_[rank].link->send(RoundAnswer{RoundKind::kSplit, number, {}, why});
}

void Hub::finishRound(RoundKind kind) {
  std::vector<Blob> own;
  for (size_t participant : rounds_->participants(kind)) {
    RoundAnswer answer = rounds_->answerTo(kind, participant);
    if (participant == 0) own = std::move(answer.blobs);
    else if (members_[participant].link) members_[participant].link->send(answer);
  }
  rounds_->finish(kind);
  events_.answered(std::move(own));
}

Status Hub::memberLeft(size_t member) {
  const std::optional<std::string> awaited = rounds_->waitingFor(member);
  if (awaited) return {Code::kRemote, *awaited};
  members_[member].left = true;
  waits_->hear(member, Heartbeat());
  meeting_.seeOff(members_[member].link->takeSocket());
  members_[member].link.reset();
  std::erase_if(suspicions_, [&](const Suspicion& suspicion) { return suspicion.member == member; });
  events_.memberLeft(member);
  broadcast(MessageType::kLeft, encode(Left{static_cast<uint32_t>(member)}));
  return {};
}

Status Hub::addSuspicion(const Suspect& suspect) {
  // Of no member: it stands unless better is known.
  const size_t member = std::min<size_t>(suspect.member, members_.size());
  if (member < members_.size() && members_[member].left) return {};
  const auto same = [&](const Suspicion& earlier) { return earlier.member == member; };
  if (std::none_of(suspicions_.begin(), suspicions_.end(), same))  // else the earlier one ends first
    suspicions_.push_back({member, suspect.text, Deadline::in(suspicionWindow(roster_.settings.timeoutMs))});
  return {};
}

Status Hub::checkDeadlines() {
  if (state_ == State::kMeeting || state_ == State::kOpening) return checkStart();
  if (const std::optional<std::string> expired = rounds_->expired()) return {Code::kRemote, *expired};
  BPS_TRY(checkWaits());
  if (const std::optional<std::string> expired = rounds_->expiredSplit()) {
    const uint32_t number = rounds_->number(RoundKind::kSplit);
    for (size_t rank : rounds_->giveUpSplit()) refuseSplit(rank, number, *expired);
  }
  for (Suspicion& suspicion : suspicions_) {
    if (!suspicion.deadline.passed()) continue;
    // Its silence would be direct evidence, so a member whose heartbeats are missing is waited for.
    const bool member = suspicion.member < members_.size() && members_[suspicion.member].link;
    if (!member || !members_[suspicion.member].link->overdue()) return {Code::kRemote, suspicion.text};
    suspicion.deadline = Deadline::in(kNextLook);
  }
  return {};
}

// As often as heartbeats come; these wake the hub, too.
Status Hub::checkWaits() {
  if (!waitsAt_.passed()) return {};
  waitsAt_ = Deadline::in(milliseconds(roster_.settings.timeoutMs / 10));
  for (size_t member = 1; member < members_.size(); ++member)
    if (members_[member].link) waits_->hear(member, members_[member].link->heartbeat());
  return waits_->check(Deadline::Clock::now());
}

Status Hub::checkStart() const {
  if (!meeting_.deadline().passed()) return {};
  if (!unable_.ok()) return unable_.clone();
  if (!meeting_.table().complete()) return {Code::kRemote, meeting_.missing()};
  return failure(Code::kRemote, "servers have not opened the job in time: {}", servers_.pending());
}

Status Hub::explained(const Status& failure) const {
  const std::string pause = pause_.text();
  if (failure.code() != Code::kRemote || pause.empty()) return failure.clone();
  const std::string self = rounds_ ? roster_.rankName(0) : meeting_.table().name(0);
  return failure.clone().within(fmt::format("{}, the hub, {}", self, pause));
}

void Hub::fail(const Status& why) {
  if (state_ == State::kFailed || state_ == State::kLeaving || state_ == State::kOver) return;
  const Status failure = explained(why);
  for (Meeting::Arrival& arrival : meeting_.takeArrivals()) members_[arrival.rank].link = std::move(arrival.link);
  broadcast(MessageType::kFailure, encode(FailureMessage{failure.code(), failure.message()}));
  for (auto& link : servers_.tell(failure)) members_.push_back({std::move(link), false});
  meeting_.tell(failure);
  meeting_.close();
  root_.reset();
  rounds_.reset();
  suspicions_.clear();
  state_ = State::kFailed;
  failure_ = failure.clone();
  tellBy_ = Deadline::in(kOthersFirst);
}

// After the last words: whoever has closed has read them.
void Hub::seeOff(const PollSet& set) {
  bool everybody = true;
  for (Member& member : members_) {
    if (!member.link) continue;
    Status status = member.link->tick(set);
    for (int turn = 0; turn < kFramesPerTurn && status.ok(); ++turn) {
      Result<std::optional<Frame>> frame = member.link->next();
      if (!frame.ok()) status = std::move(frame).status();
      else if (!std::move(frame).value()) break;
    }
    if (!status.ok()) member.link.reset();
    else everybody = false;
  }
  if (!failure_.ok() && (everybody || tellBy_.passed())) events_.failed(std::exchange(failure_, Status()));
  [[maybe_unused]] const Status ignored = meeting_.step(set);
  if (!everybody || !meeting_.quiet()) return;
  const bool leaving = state_ == State::kLeaving;
  state_ = State::kOver;
  if (leaving) events_.farewell();
}

void Hub::broadcast(MessageType type, const Blob& payload, size_t except) {
  for (size_t member = 0; member < members_.size(); ++member)
    if (member != except && members_[member].link) members_[member].link->send(type, payload);
}

bool Hub::quiet() const { return state_ != State::kFailed && state_ != State::kLeaving; }

}  // namespace bps
