// Recovery: what the ranks agree on after the loss of a server, so that every call still returns the
// same bits.
//
// When the hub has announced the loss (control_plane.h), every rank takes three steps. It ends its
// lane to the server. It gathers the RecoveryItems of all ranks. Then it connects a SubstituteLane
// with the other machines. Chunk numbers count the chunks of the lane since the start.
//
//   chunks below `from`             retired by all machines
//   chunks from `from` to `to` - 1  retired by some machines, which bring the sums that they have kept (lane.h)
//   chunks from `to` on             retired by no machine, so every contribution is intact
//
// All chunks from `from` on go through the SubstituteLane, in the order of the lane. Calls that any
// rank has cut keep their cut. From call `firstCall` on, the shares are solved without the server.
// No rank cuts a call between its item and the result (call_cutter.h), so all ranks cut every call alike.
#pragma once
#include <cstdint>
#include <vector>

#include "src/base/io/wire_io.h"
#include "src/base/status.h"
#include "src/wire/roster.h"

namespace bps {

struct RecoveryItem {
  uint64_t callsCut = 0;
  bool drivesRail = false;
  uint64_t retired = 0;       // chunks of the lane
  std::vector<Blob> handles;  // per endpoint, see net::Mesh::handles(); empty if the rank drives no rail
};
Blob encode(const RecoveryItem& item);

struct Recovery {
  bool rankLeft = false;  // a rank has left, so no further call can complete; the other members are not set
  uint64_t firstCall = 0;
  // For this rank's rail:
  uint64_t from = 0, to = 0;
  std::vector<size_t> sumHolders;  // for each chunk from `from` to `to` - 1, the first machine that has its sum
  std::vector<Blob> handles;       // per endpoint, the handles that the endpoint has for this machine
};

// Derives the agreement from the items of all ranks. `depth` is the largest number of chunks by which
// a machine can be ahead of another one. Fails if an item is not valid, and names its rank.
Result<Recovery> agreeOnRecovery(const std::vector<Blob>& items, const Roster& roster, size_t rank, size_t depth);

}  // namespace bps
