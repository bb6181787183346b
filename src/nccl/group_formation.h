// Formation of local GPU groups. After the formation, either every rank of a communicator has a
// group or no rank has one.
//
// src/api and src/interpose both form groups with this code, but with different callbacks in
// GroupFormation. A rank on which a step fails still shares the failure with all ranks, because the
// other ranks wait for its record.
//
// The formed group belongs to the caller. All callbacks run on the caller's thread.
#pragma once
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "src/nccl/local_gpu_group.h"
#include "src/nccl/local_gpu_groups.h"

namespace bps::nccl {

struct GroupFormation {
  // Sends this rank's record to all ranks. Returns the records of all ranks, in rank order. A
  // failure ends the communicator.
  std::function<Result<std::vector<Blob>>(const Blob& mine)> share;
  // Makes the bps communicator of the owners of one part, ordered by `leader`. Every rank calls
  // create(). A rank without a part passes BPS_SPLIT_NOCOLOR. If create() fails, *made may be set,
  // and the caller aborts *made.
  std::function<Status(int part, int leader, bpsComm_t* made)> create;
  // Makes NCCL's communicator of this rank's group, or null if the group has only one rank. Every
  // rank calls split(). If split() fails, *made may be set, and the caller aborts *made. If
  // `splitNeedsId` is true, the first rank of the group has made `id`.
  std::function<Status(const LocalGpuGroups& groups, const ncclUniqueId& id, ncclComm_t* made)> split;
  bool splitNeedsId = false;
  std::function<Result<cuda::Device*>()> openDevice;
  std::function<bool()> shouldStop;  // see LocalGpuGroup::create()
};

struct FormedGroup {
  std::unique_ptr<LocalGpuGroup> group;  // null on all ranks if any rank has no group; `why` says why
  bpsComm_t ownersComm = nullptr;        // belongs to `group`; null if this rank owns no part
  std::string partName;                  // names this rank's part in messages
  bool attempted = false;                // the capabilities of all ranks allow groups
  std::string why;
};

// All ranks of the communicator call joinLocalGpuGroup(). `peers` holds the capabilities that the
// ranks have shared. Fails only if share() fails.
Result<FormedGroup> joinLocalGpuGroup(std::span<const PeerInfo> peers, int rank, const GroupFormation& steps);

}  // namespace bps::nccl
