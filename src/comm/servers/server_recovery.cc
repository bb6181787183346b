#include "src/comm/servers/server_recovery.h"

#include "src/base/format.h"
#include "src/base/log.h"

namespace bps {

Status ServerRecovery::recover(const ServerEvent& loss, bool unfinishedCalls) {
  const uint64_t callsCut = cutter_.hold();
  Status recovered = recoverFrom(loss, callsCut, unfinishedCalls);
  cutter_.release();
  return recovered;
}

Status ServerRecovery::recoverFrom(const ServerEvent& loss, uint64_t callsCut, bool unfinishedCalls) {
  const Roster& roster = control_.roster();
  const auto start = Deadline::Clock::now();
  const Deadline deadline = Deadline::in(std::chrono::milliseconds(roster.settings.timeoutMs));
  const size_t endpoint = roster.machines.size() + loss.server;
  DataPlane::EndedLane lane;
  if (plane_ != nullptr) lane = BPS_TRY(plane_->endLane(endpoint, [&](net::Comm& comm) { waiter_.remove(comm); }));
  Result<Recovery> agreed = agree(callsCut, lane, deadline);
  if (!agreed.ok() && (!unfinishedCalls || control_.hasLeft(0))) return {};  // the other ranks have ended
  Recovery recovery = BPS_TRY(std::move(agreed));
  if (recovery.rankLeft) return {};  // the CallScheduler fails calls that wait for a rank that has left
  cutter_.weights().add(recovery.firstCall, loss.server, false);
  if (plane_ != nullptr) {
    const bool needed = unfinishedCalls || recovery.firstCall > callsCut;
    const Status replaced = plane_->replaceLane(endpoint, std::move(lane), std::move(recovery), deadline);
    if (!replaced.ok()) return needed ? replaced.clone() : Status();  // another rank has ended
    Status added;
    plane_->lane(endpoint).forEachComm([&](net::Comm& comm) {
      if (added.ok()) added = waiter_.add(comm);
    });
    BPS_TRY(std::move(added));
  }
  log(loss, std::chrono::duration<double>(Deadline::Clock::now() - start).count());
  return {};
}

Result<Recovery> ServerRecovery::agree(uint64_t callsCut, const DataPlane::EndedLane& lane, Deadline deadline) const {
  RecoveryItem item;
  item.callsCut = callsCut;
  item.drivesRail = plane_ != nullptr;
  item.retired = lane.remains.retired;
  if (plane_ != nullptr) item.handles = lane.mesh->handles();
  const std::vector<Blob> items = BPS_TRY(control_.gatherForRecovery(encode(item), deadline));
  return agreeOnRecovery(items, control_.roster(), control_.rank(), depth_);
}

// Only rank 0 warns, so that a large job does not warn a thousand times.
void ServerRecovery::log(const ServerEvent& loss, double seconds) const {
  const Roster& roster = control_.roster();
  const std::string text = fmt::format(
      "{} is lost, and the calls go on without it: {}. The change took {:.0f} ms; {} of {} servers are left",
      roster.endpointName(roster.machines.size() + loss.server), loss.text, 1e3 * seconds, cutter_.weights().present(),
      roster.servers.size());
  if (control_.rank() == 0) logWarn(Subsystem::kColl, "{}", text);
  else logInfo(Subsystem::kColl, "{}", text);
}

}  // namespace bps
