#include "src/comm/progress/server_change.h"

#include "src/base/format.h"
#include "src/base/log.h"

namespace bps {
namespace {

// The interval between the steps of connecting, which take time from the calls.
constexpr std::chrono::microseconds kMeshInterval(200);

Status unexpected(const ServerEvent& event) {
  return failure(Code::kRemote, "the hub sent event {} of server {} at the wrong time", static_cast<int>(event.kind),
                 event.server);
}

}  // namespace

Status ServerChange::handle(const ServerEvent& event, uint64_t callsBegun) {
  using Kind = ServerEvent::Kind;
  switch (event.kind) {
    case Kind::kJoining:
    case Kind::kLeaving:
      return begin(event, callsBegun);
    case Kind::kHandles:
      return connect(event, callsBegun);
    case Kind::kAt:
      return takeEffectAt(event);
    case Kind::kEnd:
      if (!change_ || !change_->done) return unexpected(event);
      return onEnd();
    case Kind::kAborted:
      if (!change_ || change_->firstCall) return unexpected(event);
      log(fmt::format("{}: {}", change_->joins ? "cannot join" : "does not leave", event.text));
      end();
      return {};
    case Kind::kLost:
      break;
  }
  return unexpected(event);
}

Status ServerChange::begin(const ServerEvent& event, uint64_t callsBegun) {
  if (change_ || event.server >= session_.control.roster().servers.size()) return unexpected(event);
  change_.emplace();
  change_->server = event.server;
  change_->number = event.change;
  change_->joins = event.kind == ServerEvent::Kind::kJoining;
  change_->bytesPerSecond = event.bytesPerSecond;
  if (!change_->joins) {
    becomeReady(callsBegun);
    return {};
  }
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

Status ServerChange::connect(const ServerEvent& event, uint64_t callsBegun) {
  if (!change_ || !change_->joins || change_->connects || change_->ready) return unexpected(event);
  if (change_->mesh == nullptr) {  // this rank uses no network, or has given up
    becomeReady(callsBegun);
    return {};
  }
  std::vector<Blob> handles(session_.control.roster().endpoints());
  handles[endpoint()] = event.handles;
  const Status set = change_->mesh->setPeerHandles(handles);
  if (!set.ok()) giveUp(set.message());
  else change_->connects = true;
  change_->deadline = Deadline::in(std::chrono::milliseconds(session_.control.roster().settings.timeoutMs));
  return {};
}

void ServerChange::giveUp(const std::string& why) {
  change_->mesh.reset();
  const Roster& roster = session_.control.roster();
  reply(ServerReply::Kind::kFailed, 0, {},
        fmt::format("{} cannot connect with {}: {}", roster.rankName(session_.control.rank()),
                    roster.endpointName(endpoint()), why));
}

void ServerChange::becomeReady(uint64_t callsBegun) {
  change_->ready = true;
  reply(ServerReply::Kind::kReady, callsBegun);
}

Status ServerChange::takeEffectAt(const ServerEvent& event) {
  if (!change_ || !change_->ready || change_->firstCall) return unexpected(event);
  change_->firstCall = event.call;
  weights_.add(event.call, change_->server, change_->joins, change_->bytesPerSecond);
  return {};
}

bool ServerChange::mayBegin(uint64_t call) const {
  if (!change_ || !change_->ready) return true;
  if (!change_->firstCall) return false;
  return call < *change_->firstCall || !change_->joins || change_->done;
}

Result<bool> ServerChange::step(uint64_t callsBegun) {
  if (!change_ || change_->done) return false;
  if (connecting()) return stepMesh(callsBegun);
  if (!change_->firstCall || callsBegun < *change_->firstCall) return false;
  if (plane_ != nullptr) {
    if (!plane_->canChangeLane(endpoint())) return false;
    if (change_->joins) plane_->changeLane(endpoint(), BPS_TRY(weights_.at(*change_->firstCall)));
  }
  change_->done = true;
  reply(ServerReply::Kind::kDone);
  log(fmt::format("{} at call {} since the start; {} servers now", change_->joins ? "joins" : "leaves",
                  *change_->firstCall, weights_.present()));
  return true;
}

Result<bool> ServerChange::stepMesh(uint64_t callsBegun) {
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
  becomeReady(callsBegun);
  return true;
}

Status ServerChange::onEnd() {
  const bool removesLane = !change_->joins && !change_->lost && plane_ != nullptr;
  if (removesLane) plane_->changeLane(endpoint(), BPS_TRY(weights_.at(*change_->firstCall)));
  end();
  return {};
}

void ServerChange::end() {
  if (plane_ != nullptr) plane_->dropLanes([this](net::Comm& comm) { waiter_.remove(comm); });
  change_.reset();
}

void ServerChange::reply(ServerReply::Kind kind, uint64_t limit, Blob handles, std::string text) const {
  session_.control.reply({kind, change_->number, limit, std::move(handles), std::move(text)});
}

void ServerChange::log(const std::string& text) const {
  logInfo(Subsystem::kColl, "{} {}", session_.control.roster().endpointName(endpoint()), text);
}

}  // namespace bps
