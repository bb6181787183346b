// The formation of local GPU groups: the steps by which every rank of a communicator gets its group, or none gets one.
//
// src/api and src/interpose both form groups so. What differs between them is in the callbacks of GroupFormation. A
// rank on which a step fails still shares that outcome, where all ranks learn of it: the other ranks wait for its
// record.
//
// The caller owns what is formed. Threads: all callbacks run on the thread of the caller.
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
  // All-gathers one record of every rank, in rank order. A failure ends the communicator.
  std::function<Result<std::vector<Blob>>(const Blob& mine)> share;
  // Makes the bps communicator of the owners of one part, ordered by `leader`. Every rank calls; a rank without a part
  // passes BPS_SPLIT_NOCOLOR. On failure *made may be set, and is then aborted.
  std::function<Status(int part, int leader, bpsComm_t* made)> create;
  // Makes NCCL's communicator of this rank's group; null if the rank is alone in it. Every rank calls. On failure *made
  // may be set, and is then aborted. `id`: made by the first rank of the group if `splitNeedsId`.
  std::function<Status(const LocalGpuGroups& groups, const ncclUniqueId& id, ncclComm_t* made)> split;
  bool splitNeedsId = false;
  std::function<Result<cuda::Device*>()> openDevice;
  std::function<bool()> shouldStop;  // see LocalGpuGroup::create()
};

struct FormedGroup {
  std::unique_ptr<LocalGpuGroup> group;  // null on all ranks if any rank has none, because of `why`
  bpsComm_t ownersComm = nullptr;        // `group` owns it; null: this rank owns no part
  std::string partName;                  // names the rank's part in messages
  bool attempted = false;                // the capabilities of all ranks allow groups
  std::string why;
};

// Collective over all ranks of the communicator; `peers` holds what every rank has shared. Fails only if share() fails.
Result<FormedGroup> joinLocalGpuGroup(std::span<const PeerInfo> peers, int rank, const GroupFormation& steps);

}  // namespace bps::nccl
