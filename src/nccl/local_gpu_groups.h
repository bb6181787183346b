// LocalGpuGroups: which ranks of a communicator combine their buffers by NCCL, and which of them own a part of a call.
//
// The ranks of a local GPU group share a machine, or a PCIe switch of it. Every group cuts a buffer alike; the owners
// of one part, one in each group, form a communicator of bps. Everything here is a pure function of records that all
// ranks have shared, so all ranks draw the same conclusion. Threads: any.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "src/base/env.h"
#include "src/base/io/wire_io.h"

namespace bps::nccl {

// A rank's capabilities, as far as local GPU groups need them.
struct PeerInfo {
  uint64_t machine = 0;   // hash of its host id
  uint64_t gpuGroup = 0;  // equal on ranks that may form a group; 0: the rank can be in none, for the reason `why`
  bool root = false;      // the machine's plan combines at some GPUs only, and the rank's GPU is one of them
  bool allowsAnyOrder = false;  // BPS_NCCL_LOCAL=any
  bool hasServers = false;      // BPS_SERVERS is set
  std::string why;

  // The capabilities of a rank that works on CUDA device `device`. `without`: why it can be in no group, or empty.
  static PeerInfo detect(int device, const Env& env, std::string without);
  void put(WireWriter& writer) const;
  void get(WireReader& reader);
};

// A rank's outcome of one step, and an id that the rank may hand out with it.
struct RankStatus {
  static constexpr size_t kIdBytes = 128;  // of NCCL's unique ids and of those of bps
  static constexpr size_t kBytes = 256 + kIdBytes;

  static Blob encode(const Status& status, std::span<const char, kIdBytes> id);
  // The failure that best explains why the step failed, with its rank: a time-out only if there is no other failure.
  // Empty if the step succeeded on all ranks.
  static std::string firstFailure(std::span<const Blob> all);
  static void readId(std::span<const uint8_t> record, std::span<char, kIdBytes> id);
};

struct LocalGpuGroups {
  std::vector<int> leaders;     // by rank: the lowest rank of its group
  std::vector<int> groupRanks;  // by rank: its number in the group; roots have the lowest numbers
  int owners = 0;  // the first `owners` ranks of every group own a part each; 0: no groups, because of `why`
  int groupCount = 0;
  bool allowsAnyOrder = false;  // false: groups carry only calls whose bits do not depend on NCCL's order
  std::string why;

  int sizeOf(int rank) const;
  int leaderOf(int rank) const { return leaders[static_cast<size_t>(rank)]; }
  int groupRankOf(int rank) const { return groupRanks[static_cast<size_t>(rank)]; }
  bool owns(int rank) const { return groupRankOf(rank) < owners; }
  // The owners of a part, one in each group: "1, 3".
  std::string ownersOf(int part) const;
};

LocalGpuGroups formLocalGpuGroups(std::span<const PeerInfo> peers);

}  // namespace bps::nccl
