// Teams: ranks of one machine, or under one of its switches, that combine their buffers by NCCL, on their GPUs, before
// and after bps all-reduces. Every team cuts a buffer alike, so that the owners of one part, one in each team, are a
// communicator of bps. What the ranks show each other for it, and what follows: pure, and the same on all ranks.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "src/base/env.h"
#include "src/base/wire_io.h"

namespace bps::nccl {

// What a rank shows of itself.
struct Member {
  uint64_t machine = 0;   // hash of its host id
  uint64_t team = 0;      // hash of what its GPU shares with others; 0: it can be in none, for `why`
  bool root = false;      // its machine's plan is to combine at some GPUs only, and its GPU is one of them
  bool anyOrder = false;  // BPS_NCCL_LOCAL=any
  bool hasServers = false;
  std::string why;

  // Of a rank that works on this CUDA device; `without` says why it can be in no team, or nothing.
  static Member of(int device, const Env& env, std::string without);
  void put(WireWriter& writer) const;
  void get(WireReader& reader);
};

struct Teams {
  std::vector<int> leads;   // by rank: the lowest rank of its team
  std::vector<int> places;  // by rank: in its team, those who are roots first
  int owners = 0;           // the first of every team own a part each; 0: there are no teams, as `why` says
  int number = 0;           // of teams
  bool anyOrder = false;    // of NCCL's sum; else calls whose bits would depend on it are not for teams
  std::string why;

  // Of the rank's team.
  int sizeOf(int rank) const;
  int leadOf(int rank) const { return leads[static_cast<size_t>(rank)]; }
  int placeOf(int rank) const { return places[static_cast<size_t>(rank)]; }
  // "1, 3": one in each team.
  std::string ownersOf(int part) const;
};

Teams teamsOf(std::span<const Member> members);

// Whoever is between a program and NCCL makes teams of NCCL's own communicators: those of bps then make none. From the
// first call of leaveTeamsToCaller() on; any thread.
void leaveTeamsToCaller();
bool teamsLeftToCaller();

}  // namespace bps::nccl
