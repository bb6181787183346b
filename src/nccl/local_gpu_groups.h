// LocalGpuGroups: the division of a communicator's ranks into groups that combine their buffers by
// NCCL, and the ranks that own the parts of a call. The owner of a part all-reduces it with bps.
//
// The ranks of a local GPU group share a machine or a PCIe switch. All groups cut a buffer in the
// same way. Each part has one owner in every group, and the owners of one part form a communicator
// of bps. All results here are pure functions of records that all ranks have shared, so they are
// the same on all ranks. Any thread may call these functions.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "src/base/env.h"
#include "src/base/io/wire_io.h"
#include "src/nccl/call_pieces.h"

namespace bps::nccl {

// The facts that a rank reports about itself. From the facts of all ranks, every rank forms the same
// local GPU groups.
struct PeerInfo {
  uint64_t machine = 0;  // hash of the machine's host id
  // Ranks with equal `gpuGroup` may form a group. If `gpuGroup` is 0, the rank cannot be in a group,
  // and `why` has the reason.
  uint64_t gpuGroup = 0;
  // True if the machine plan combines buffers only at some GPUs, the roots, and the rank's GPU is a
  // root.
  bool root = false;
  bool allowsAnyOrder = false;  // BPS_NCCL_LOCAL=any
  bool hasServers = false;      // BPS_SERVERS is set
  bool addsAlongRing = false;   // without NCCL, the machine would add along a ring of GPUs and round at every step
  std::string why;

  // Returns the report of a rank that uses CUDA device `device`. If the rank cannot be in a group,
  // `without` has the reason; otherwise `without` is empty.
  static PeerInfo detect(int device, const Env& env, std::string without);
  void put(WireWriter& writer) const;
  void get(WireReader& reader);
};

// The outcome of one step of the formation of groups on one rank, and an id that the rank may send
// with the outcome.
struct RankStatus {
  static constexpr size_t kIdBytes = 128;  // size of the unique ids of NCCL and bps
  static constexpr size_t kBytes = 256 + kIdBytes;

  static Blob encode(const Status& status, std::span<const char, kIdBytes> id);
  // Returns the failure that best explains why the step failed, with the rank that failed. Returns
  // a time-out only if there is no other failure. Returns empty text if the step succeeded on all
  // ranks.
  static std::string firstFailure(std::span<const Blob> all);
  static void readId(std::span<const uint8_t> record, std::span<char, kIdBytes> id);
};

struct LocalGpuGroups {
  std::vector<int> leaders;     // for each rank, the lowest rank of its group
  std::vector<int> groupRanks;  // for each rank, its number in the group; roots have the lowest numbers
  // The first `owners` ranks of every group own one part each. If `owners` is 0, there are no
  // groups, and `why` has the reason.
  int owners = 0;
  int groupCount = 0;
  OrderRules order;         // addsInRankOrder is false until all ranks have the kernel
  std::string noRankOrder;  // why sums cannot be in rank order, if BPS_NCCL_LOCAL=exact asks for it
  std::string why;

  int sizeOf(int rank) const;
  int leaderOf(int rank) const { return leaders[static_cast<size_t>(rank)]; }
  int groupRankOf(int rank) const { return groupRanks[static_cast<size_t>(rank)]; }
  bool owns(int rank) const { return groupRankOf(rank) < owners; }
  // For each rank of the group of `rank`, the number of its ranks that are before it in the communicator.
  std::vector<int> placesOf(int rank) const;
  // Returns the owners of a part, one in each group, as text such as "1, 3".
  std::string ownersOf(int part) const;
};

LocalGpuGroups formLocalGpuGroups(std::span<const PeerInfo> peers);

}  // namespace bps::nccl
