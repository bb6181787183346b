#include "src/comm/servers/server_change.h"

#include "src/base/format.h"
#include "src/base/log.h"

namespace bps {
namespace {

constexpr std::chrono::microseconds kMeshInterval(200);  // between the steps of connecting, which delay the calls

Status unexpected(const ServerEvent& event) {
  return failure(Code::kRemote, "the hub sent event {} of server {} at the wrong time", static_cast<int>(event.kind),
                 event.server);
}

std::string doneText(ServerEvent::Kind what, double rateFactor) {
  if (what == ServerEvent::Kind::kJoining) return "joins";
  if (what == ServerEvent::Kind::kLeaving) return "leaves";
  return fmt::format("gets the share of {:.0f} % of its rate", 100 * rateFactor);
}

}  // namespace

Status ServerChange::handle(const ServerEvent& event) {
  using Kind = ServerEvent::Kind;
  switch (event.kind) {
    case Kind::kJoining:
    case Kind::kLeaving:
    case Kind::kNewRate:
      return begin(event);
    case Kind::kHandles:
      return connect(event);
    case Kind::kConnected:
      if (!change_ || !change_->connected || change_->ready) return unexpected(event);
      return becomeReady();
    case Kind::kAt:
      return takeEffectAt(event);
    case Kind::kEnd:
      if (!change_ || !change_->done) return unexpected(event);
      return onEnd();
    case Kind::kAborted:
      if (!change_ || change_->firstCall) return unexpected(event);
      log(fmt::format("{}: {}", change_->joins() ? "cannot join" : "keeps its share", event.text));
      end();
      return {};
    case Kind::kLost:
    case Kind::kRankLost:
      break;
  }
  return unexpected(event);
}

Status ServerChange::begin(const ServerEvent& event) {
  if (change_ || event.server >= control_.roster().servers.size()) return unexpected(event);
  change_.emplace(event);
  if (!change_->joins()) return becomeReady();
  Blob handles;
  if (plane_ != nullptr) {
    Result<std::unique_ptr<net::Mesh>> mesh = plane_->listenFor(endpoint());
    if (!mesh.ok()) {
      giveUp(mesh.error().message());
      return {};
    }
    change_->mesh = std::move(mesh).value();
    handles = change_->mesh->handles()[endpoint()];
  }
  reply(ServerReply::Kind::kHandles, 0, std::move(handles));
  return {};
}

Status ServerChange::connect(const ServerEvent& event) {
  if (!change_ || !change_->joins() || change_->connects || change_->connected) return unexpected(event);
  if (change_->mesh == nullptr) {  // this rank uses no network, or has given up
    noteConnected();
    return {};
  }
  std::vector<Blob> handles(control_.roster().endpoints());
  handles[endpoint()] = event.handles;
  const Status set = change_->mesh->setPeerHandles(handles);
  if (!set.ok()) giveUp(set.message());
  else change_->connects = true;
  change_->deadline = Deadline::in(std::chrono::milliseconds(control_.roster().settings.timeoutMs));
  return {};
}

void ServerChange::giveUp(const std::string& why) {
  change_->mesh.reset();
  const Roster& roster = control_.roster();
  reply(ServerReply::Kind::kFailed, 0, {},
        fmt::format("{} cannot connect with {}: {}", roster.rankName(control_.rank()), roster.endpointName(endpoint()),
                    why));
}

void ServerChange::noteConnected() {
  change_->connected = true;
  reply(ServerReply::Kind::kConnected);
}

Status ServerChange::becomeReady() {
  change_->ready = true;
  reply(ServerReply::Kind::kReady, cutter_.hold());
  return {};
}

Status ServerChange::takeEffectAt(const ServerEvent& event) {
  if (!change_ || !change_->ready || change_->firstCall || event.call < cutter_.callsCut()) return unexpected(event);
  change_->firstCall = event.call;
  ServerWeights& weights = cutter_.weights();
  if (change_->changesLane()) weights.add(event.call, change_->server, change_->joins(), change_->bytesPerSecond);
  else weights.addRate(event.call, change_->server, change_->rateFactor);
  cutter_.release();
  return {};
}

bool ServerChange::mayBegin(uint64_t call) const {
  if (!change_ || !change_->firstCall) return true;
  return call < *change_->firstCall || !change_->joins() || change_->done;
}

Result<bool> ServerChange::step(uint64_t callsBegun) {
  if (!change_ || change_->done) return false;
  if (connecting()) return stepMesh();
  if (!change_->firstCall || callsBegun < *change_->firstCall) return false;
  if (plane_ != nullptr && change_->changesLane()) {
    if (!plane_->canChangeLane(endpoint())) return false;
    if (change_->joins()) plane_->changeLane(endpoint(), BPS_TRY(cutter_.weights().at(*change_->firstCall)));
  }
  change_->done = true;
  reply(ServerReply::Kind::kDone);
  log(fmt::format("{} at call {} since the start; {} servers now", doneText(change_->what, change_->rateFactor),
                  *change_->firstCall, cutter_.weights().present()));
  return true;
}

Result<bool> ServerChange::stepMesh() {
  if (!nextMeshStep_.passed()) return false;
  nextMeshStep_ = Deadline::in(kMeshInterval);
  Result<Progress> progress = change_->mesh->step();
  Status outcome = progress.ok() ? Status() : progress.error().clone();
  if (outcome.ok() && std::move(progress).value() == Progress::kPending) {
    if (change_->deadline.passed()) giveUp("it took too long");
    return false;
  }
  if (outcome.ok()) outcome = plane_->prepareLane(endpoint(), *change_->mesh);
  if (!outcome.ok()) {
    giveUp(outcome.message());
    return true;
  }
  change_->mesh.reset();
  Status watched;
  plane_->lane(endpoint()).forEachComm([&](net::Comm& comm) {
    if (watched.ok()) watched = waiter_.add(comm);
  });
  BPS_TRY(std::move(watched));
  noteConnected();
  return true;
}

Status ServerChange::onEnd() {
  const bool removesLane = change_->what == ServerEvent::Kind::kLeaving && !change_->lost && plane_ != nullptr;
  if (removesLane) plane_->changeLane(endpoint(), BPS_TRY(cutter_.weights().at(*change_->firstCall)));
  end();
  return {};
}

void ServerChange::end() {
  if (plane_ != nullptr) plane_->dropLanes([this](net::Comm& comm) { waiter_.remove(comm); });
  if (change_->ready && !change_->firstCall) cutter_.release();
  change_.reset();
}

void ServerChange::reply(ServerReply::Kind kind, uint64_t limit, Blob handles, std::string text) const {
  control_.reply({kind, change_->number, limit, std::move(handles), std::move(text)});
}

void ServerChange::log(const std::string& text) const {
  logInfo(Subsystem::kColl, "{} {}", control_.roster().endpointName(endpoint()), text);
}

}  // namespace bps
