#include "src/control/servers/server_changes.h"

#include <algorithm>

#include "src/base/format.h"
#include "src/base/log.h"
#include "src/control/control_node.h"
#include "src/control/frames.h"

namespace bps {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kDialTime(500), kDialPause(500);  // one attempt to reach a server, and the pause after it
constexpr milliseconds kFirstJoinPause(1000), kMaxJoinPause(30000);  // the pause after a failed join doubles each time
constexpr milliseconds kProvenTime(5000);  // a server that is lost sooner after its join counts as a failed join

}  // namespace

ServerChanges::ServerChanges(const Roster& roster, ServerPoolArgs servers, ServerFile file, Host& host)
    : roster_(roster),
      servers_(std::move(servers)),
      file_(std::move(file)),
      host_(host),
      places_(roster.servers.size()),
      left_(roster.ranks.size()) {
  servers_.required = false;
  servers_.quiet = true;
  for (size_t server = 0; server < places_.size(); ++server) {
    Place& place = places_[server];
    place.present = roster.servers[server].present;
    place.bytesPerSecond = roster.servers[server].bytesPerSecond;
    if (server < servers_.targets.size()) place.target = servers_.targets[server];
    place.listed = place.target.has_value();
    place.nextDial = Deadline::in(kDialPause);
  }
}

void ServerChanges::watch(PollSet& set) const {
  if (rankLeft_) return;
  set.wakeAt(file_.nextLook().at());
  set.wakeAt(change_.deadline.at());
  if (change_.link) change_.link->watch(set);
  for (size_t server = 0; server < places_.size(); ++server) {
    if (places_[server].dialing) places_[server].dialing->watch(set);
    else if (mayDial(server)) set.wakeAt(places_[server].nextDial.at());
  }
}

void ServerChanges::step(const PollSet& set) {
  if (rankLeft_ && !changing()) return;
  if (!rankLeft_) {
    readFile();
    if (!changing()) assignPlaces();
    dial(set);
    if (!changing()) beginNext();
  }
  if (change_.link) stepLink(set);
  if (changing() && change_.deadline.passed()) abort(missing());
}

void ServerChanges::readFile() {
  const std::optional<std::vector<ServerTarget>> listed = file_.readIfChanged();
  if (!listed) return;
  for (Place& place : places_) {
    place.listed = place.target && std::any_of(listed->begin(), listed->end(), [&](const ServerTarget& target) {
                     return target.name == place.target->name;
                   });
    if (!place.listed) place.dialing.reset();
  }
  if (change_.step == Step::kOpening && !places_[change_.server].listed) abort("it is no longer listed");
  unassigned_.clear();
  for (const ServerTarget& target : *listed) {
    const auto holds = [&](const Place& place) { return place.target && place.target->name == target.name; };
    if (std::none_of(places_.begin(), places_.end(), holds)) unassigned_.push_back(target);
  }
  if (listed->size() > places_.size())
    logWarn(Subsystem::kInit, "{} of {} listed servers are not used: the communicator has room for {} servers",
            listed->size() - places_.size(), listed->size(), places_.size());
}

// Gives listed servers the places whose server is absent and not listed. A server that leaves keeps its place until it
// has left, so the other servers wait.
void ServerChanges::assignPlaces() {
  for (Place& place : places_) {
    if (unassigned_.empty()) return;
    if (place.present || place.listed) continue;
    place = Place();
    place.target = std::move(unassigned_.front());
    place.listed = true;
    place.nextDial = Deadline::in({});
    unassigned_.erase(unassigned_.begin());
  }
}

bool ServerChanges::mayDial(size_t server) const {
  const Place& place = places_[server];
  return !place.present && place.listed && !(change_.link && change_.server == server);
}

void ServerChanges::dial(const PollSet& set) {
  for (size_t server = 0; server < places_.size(); ++server) {
    Place& place = places_[server];
    if (place.dialing != nullptr) {
      stepDialing(server, set);
    } else if (mayDial(server) && place.nextDial.passed()) {
      ServerPoolArgs args = servers_;
      args.targets = {*place.target};
      place.dialing = std::make_unique<ServerPool>(std::move(args));
      place.dialing->start(Deadline::in(kDialTime));
    }
  }
}

void ServerChanges::stepDialing(size_t server, const PollSet& set) {
  Place& place = places_[server];
  const Status stepped = place.dialing->step(set);
  const bool opening = change_.step == Step::kOpening && change_.server == server;
  if (!stepped.ok() || place.dialing->excludedAll()) {
    place.dialing.reset();
    place.nextDial = Deadline::in(kDialPause);
    if (opening) abort("it did not open the job");
  } else if (opening && place.dialing->allOpened()) {
    beginJoin(server);
  }
}

void ServerChanges::beginNext() {
  for (size_t server = 0; server < places_.size(); ++server) {
    Place& place = places_[server];
    const bool leaves = place.present && (place.drains || !place.listed);
    const bool joins = !place.present && place.dialing != nullptr && place.dialing->allResponded();
    const bool otherRate = place.present && place.newRateFactor.has_value();
    if (!leaves && !joins && !otherRate) continue;
    change_ = {};
    change_.what = leaves  ? ServerEvent::Kind::kLeaving
                   : joins ? ServerEvent::Kind::kJoining
                           : ServerEvent::Kind::kNewRate;
    change_.server = static_cast<uint32_t>(server);
    change_.number = ++changes_;
    if (!joins) return beginStep(Step::kReady, change_.what);
    change_.step = Step::kOpening;
    change_.deadline = Deadline::in(milliseconds(roster_.settings.timeoutMs));
    Roster proposed = roster_;
    for (size_t other = 0; other < places_.size(); ++other) {
      proposed.servers[other].name = roster_.serverName(other);
      proposed.servers[other].present = places_[other].present;
      proposed.servers[other].bytesPerSecond = places_[other].bytesPerSecond;
    }
    place.dialing->propose(proposed, server);
    return;
  }
}

// The server has opened the job. Its messages now come to change_.link.
void ServerChanges::beginJoin(size_t server) {
  Place& place = places_[server];
  place.bytesPerSecond = place.dialing->roster().servers[server].bytesPerSecond;
  change_.link = std::move(place.dialing->begin().front());
  place.dialing.reset();
  roster_.joinedNames.set(server, place.target->name);
  beginStep(Step::kHandles, ServerEvent::Kind::kJoining);
}

// Announces the step. The ranks reply to it.
void ServerChanges::beginStep(Step step, ServerEvent::Kind kind) {
  change_.step = step;
  change_.replies = std::vector<std::optional<ServerReply>>(roster_.ranks.size());
  change_.deadline = Deadline::in(milliseconds(roster_.settings.timeoutMs) / 2);
  ServerEvent announced = event(kind);
  if (kind == ServerEvent::Kind::kJoining) {
    announced.text = places_[change_.server].target->name;
    announced.bytesPerSecond = places_[change_.server].bytesPerSecond;
  }
  if (kind == ServerEvent::Kind::kNewRate)
    announced.rateFactor = *std::exchange(places_[change_.server].newRateFactor, std::nullopt);
  announce(announced);
}

ServerEvent ServerChanges::event(ServerEvent::Kind kind) const {
  ServerEvent event{kind, change_.server};
  event.change = change_.number;
  return event;
}

void ServerChanges::announce(const ServerEvent& event) {
  for (size_t rank = 0; rank < roster_.ranks.size(); ++rank) host_.tell(rank, event);
}

void ServerChanges::stepLink(const PollSet& set) {
  const Status received = [&]() -> Status {
    BPS_TRY(change_.link->step(set));
    return receive(set);
  }();
  if (!received.ok()) abort(received.message());
}

Status ServerChanges::receive(const PollSet&) {
  for (int turn = 0; turn < kFramesPerStep && change_.link; ++turn) {
    const std::optional<Frame> frame = BPS_TRY(change_.link->next());
    if (!frame) return {};
    BPS_TRY(handle(*frame));
  }
  return {};
}

// A server sends its handles for all ranks, and then says that it is connected, as at the start of a job.
Status ServerChanges::handle(const Frame& frame) {
  const Link& link = *change_.link;
  switch (frame.header.type) {
    case MessageType::kRefusal:
      return {Code::kRemote, BPS_TRY(decodeFrom<Refusal>(link, frame)).text};
    case MessageType::kFailure:
      return {Code::kRemote, BPS_TRY(decodeFrom<FailureMessage>(link, frame)).text};
    case MessageType::kSuspect:
      return {Code::kRemote, BPS_TRY(decodeFrom<Suspect>(link, frame)).text};
    case MessageType::kControlOpInput:
      break;
    default:
      return unexpectedFrame(link, frame);
  }
  ControlOpInput input = BPS_TRY(decodeFrom<ControlOpInput>(link, frame));
  const bool handles = change_.step == Step::kHandles && !change_.handles && input.kind == ControlOp::kExchange;
  const bool connected = change_.step == Step::kConnecting && !change_.connected && input.kind == ControlOp::kBarrier;
  const size_t expected = handles ? roster_.rails() * roster_.endpoints() : 0;
  const auto tooLong = [](const Blob& blob) { return blob.size() > kMaxItemBytes; };
  if ((!handles && !connected) || input.number != 0 || input.blobs.size() != expected ||
      std::any_of(input.blobs.begin(), input.blobs.end(), tooLong))
    return unexpectedFrame(link, frame);
  if (handles) change_.handles = std::move(input.blobs);
  else change_.connected = true;
  advance();
  return {};
}

Status ServerChanges::onReply(size_t rank, ServerReply reply) {
  using Kind = ServerReply::Kind;
  const Kind due = change_.step == Step::kHandles      ? Kind::kHandles
                   : change_.step == Step::kConnecting ? Kind::kConnected
                   : change_.step == Step::kReady      ? Kind::kReady
                                                       : Kind::kDone;
  const bool announced = changing() && change_.step != Step::kOpening && reply.change == change_.number;
  if (!announced && reply.change <= changes_) return {};  // the reply has crossed with kAborted
  if (announced && reply.kind == Kind::kFailed && change_.joins() && change_.step != Step::kDone) {
    abort(reply.text);
    return {};
  }
  if (!announced || reply.kind != due || change_.replies[rank] || reply.handles.size() > kMaxItemBytes)
    return failure(Code::kInvalidUsage, "{} broke the protocol: unexpected reply {} in change {}",
                   roster_.rankName(rank), static_cast<int>(reply.kind), reply.change);
  change_.replies[rank] = std::move(reply);
  advance();
  return {};
}

bool ServerChanges::allReplied() const {
  for (size_t rank = 0; rank < left_.size(); ++rank)
    if (!change_.replies[rank] && !left_[rank]) return false;
  return true;
}

void ServerChanges::advance() {
  if (!allReplied()) return;
  switch (change_.step) {
    case Step::kHandles:
      if (change_.handles) distributeHandles();
      return;
    case Step::kConnecting:
      if (change_.connected) beginStep(Step::kReady, ServerEvent::Kind::kConnected);
      return;
    case Step::kReady:
      return takeEffect();
    case Step::kDone:
      return finish();
    default:
      return;
  }
}

void ServerChanges::distributeHandles() {
  const size_t rails = roster_.rails(), machines = roster_.machines.size(), endpoints = roster_.endpoints();
  ControlOpResult result{ControlOp::kExchange, 0, {}, {}};
  for (size_t rail = 0; rail < rails; ++rail)
    for (size_t endpoint = 0; endpoint < endpoints; ++endpoint)
      result.blobs.push_back(endpoint < machines ? std::move(change_.replies[roster_.memberOf(endpoint, rail)]->handles)
                                                 : Blob());
  change_.link->send(result);
  const std::vector<Blob> handles = *std::move(change_.handles);
  change_.step = Step::kConnecting;
  change_.deadline = Deadline::in(milliseconds(roster_.settings.timeoutMs) / 2);
  change_.replies = std::vector<std::optional<ServerReply>>(roster_.ranks.size());
  for (size_t rank = 0; rank < roster_.ranks.size(); ++rank) {
    const RankEntry& entry = roster_.ranks[rank];
    ServerEvent event = this->event(ServerEvent::Kind::kHandles);
    if (entry.localRank < rails) event.handles = handles[entry.localRank * endpoints + entry.machine];
    host_.tell(rank, event);
  }
}

// From here on, the server is a member, or the ranks give it no further chunks.
void ServerChanges::takeEffect() {
  Place& place = places_[change_.server];
  uint64_t call = 0;
  for (const auto& reply : change_.replies) call = std::max(call, reply->limit);
  if (change_.joins()) {
    place.present = true;
    place.newRateFactor.reset();
    place.proven = Deadline::in(kProvenTime);
    change_.link->send(ControlOpResult{ControlOp::kBarrier, 0, {}, {}});
    host_.takeIn(change_.server, std::move(change_.link));
  }
  change_.step = Step::kDone;
  change_.replies = std::vector<std::optional<ServerReply>>(roster_.ranks.size());
  change_.deadline = Deadline::never();  // the application decides when it makes the calls before this one
  ServerEvent at = event(ServerEvent::Kind::kAt);
  at.call = call;
  announce(at);
}

void ServerChanges::finish() {
  Place& place = places_[change_.server];
  if (change_.what == ServerEvent::Kind::kLeaving && place.present) {
    place.present = place.drains = false;
    place.nextDial = Deadline::in(kDialPause);
    host_.sayGoodbye(change_.server);
  }
  announce(event(ServerEvent::Kind::kEnd));
  if (change_.what != ServerEvent::Kind::kNewRate)
    logInfo(Subsystem::kInit, "server {} {}", place.target->name, change_.joins() ? "has joined" : "has left");
  change_ = {};
}

// Ends a change that has not taken effect.
void ServerChanges::abort(const std::string& why) {
  Place& place = places_[change_.server];
  const Change ended = std::exchange(change_, {});
  place.dialing.reset();
  if (ended.link) ended.link->sendFailure(Status(Code::kRemote, "the server cannot join: " + why));
  if (ended.joins()) {
    lengthenPause(place);
    if (rankLeft_) logInfo(Subsystem::kInit, "server {} does not join: {}", place.target->name, why);
    else logWarn(Subsystem::kInit, "server {} cannot join: {}", place.target->name, why);
  }
  if (ended.step == Step::kOpening) return;
  ServerEvent aborted{ServerEvent::Kind::kAborted, ended.server};
  aborted.change = ended.number;
  aborted.text = why;
  announce(aborted);
}

void ServerChanges::lengthenPause(Place& place) {
  place.pause = std::clamp(2 * place.pause, kFirstJoinPause, kMaxJoinPause);
  place.nextDial = Deadline::in(place.pause);
}

// Every join and every loss takes time from the calls. A server that ends again and again is therefore dialed less
// often.
void ServerChanges::onLost(size_t server) {
  Place& place = places_[server];
  place.present = place.drains = false;
  if (place.proven.at() != Deadline::never().at() && !place.proven.passed()) {
    lengthenPause(place);
  } else {
    place.pause = {};
    place.nextDial = Deadline::in(kDialPause);
  }
  if (changing() && change_.server == server && change_.step == Step::kReady) abort("it is lost");
}

void ServerChanges::onGoodbye(size_t server) {
  onLost(server);
  places_[server].listed = false;
}

void ServerChanges::onRankLeft(size_t rank) {
  left_[rank] = rankLeft_ = true;
  for (Place& place : places_) place.dialing.reset();
  if (!changing()) return;
  if (change_.step == Step::kDone) advance();
  else abort(roster_.rankName(rank) + " has left");
}

std::string ServerChanges::missing() const {
  std::string names = change_.link && !change_.connected ? "the server" : "";
  for (size_t rank = 0; rank < change_.replies.size(); ++rank)
    if (!change_.replies[rank] && names.size() < 200) names += (names.empty() ? "" : ", ") + roster_.rankName(rank);
  return fmt::format("no reply in time from {}", names);
}

}  // namespace bps
