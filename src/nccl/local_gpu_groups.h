// LocalGpuGroups: ranks of one machine, or under one of its switches, that combine their buffers by NCCL, on their
// GPUs, before and after bps all-reduces. Every team cuts a buffer alike, so that the owners of one part, one in each
// team, are a communicator of bps. What the ranks show each other for it, and what follows: pure, and the same on all
// ranks.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "src/base/env.h"
#include "src/base/io/wire_io.h"

namespace bps::nccl {

// What a rank shows of itself.
struct PeerInfo {
  uint64_t machine = 0;         // hash of its host id
  uint64_t gpuGroup = 0;        // hash of what its GPU shares with others; 0: it can be in none, for `why`
  bool root = false;            // its machine's plan is to combine at some GPUs only, and its GPU is one of them
  bool allowsAnyOrder = false;  // BPS_NCCL_LOCAL=any
  bool hasServers = false;
  std::string why;

  // Of a rank that works on this CUDA device; `without` says why it can be in no team, or nothing.
  static PeerInfo detect(int device, const Env& env, std::string without);
  void put(WireWriter& writer) const;
  void get(WireReader& reader);
};

struct LocalGpuGroups {
  std::vector<int> leaders;     // by rank: the lowest rank of its team
  std::vector<int> groupRanks;  // by rank: in its team, those who are roots first
  int owners = 0;               // the first of every team own a part each; 0: there are no teams, as `why` says
  int groupCount = 0;           // of teams
  bool allowsAnyOrder = false;  // of NCCL's sum; else calls whose bits would depend on it are not for teams
  std::string why;

  // Of the rank's team.
  int sizeOf(int rank) const;
  int leaderOf(int rank) const { return leaders[static_cast<size_t>(rank)]; }
  int groupRankOf(int rank) const { return groupRanks[static_cast<size_t>(rank)]; }
  // "1, 3": one in each team.
  std::string ownersOf(int part) const;
};

LocalGpuGroups formLocalGpuGroups(std::span<const PeerInfo> peers);

// Whoever is between a program and NCCL makes teams of NCCL's own communicators: those of bps then make none. From the
// first call of leaveGpuGroupsToInterposer() on; any thread.
void leaveGpuGroupsToInterposer();
bool gpuGroupsLeftToInterposer();

}  // namespace bps::nccl
