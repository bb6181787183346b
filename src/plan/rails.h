// Rails: which ranks of a machine drive the network, and which bytes of a call each of these ranks
// carries. All functions are pure.
//
// Rail r joins the local ranks r of all machines. Each of these ranks has its own connections to
// the other ranks of the rail and to the servers, and its own summation service. The rails do not
// wait for each other, except in the local ring (local/local_ring.h): a chunk is complete there
// only when all rails have delivered their parts of it.
//
// A large call uses all rails: each rail carries a part of every chunk, in proportion to the rate
// of its NIC. A small call uses only the main rail, because its messages cost more than its bytes.
// The main rail carries at least a part of every chunk, so a disagreement between ranks always
// shows on the main rail.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "src/base/io/wire_io.h"
#include "src/base/status.h"
#include "topo/plan/program.h"

namespace bps {

class Rails {
 public:
  // Makes one rail, which the leaders drive.
  Rails() : Rails(std::vector<uint64_t>{1}) {}
  // `weights` has one entry per local rank. A local rank with weight 0 drives no rail. At least one
  // weight is positive.
  explicit Rails(std::vector<uint64_t> weights);

  size_t mainRail() const { return mainRail_; }
  bool hasSeveral() const { return hasSeveral_; }
  bool drives(size_t localRank) const { return localRank < weights_.size() && weights_[localRank] > 0; }
  std::vector<size_t> drivers() const;

  // True if a call of `bytes` uses all rails, because it has at least `chunkBytes` per local rank.
  bool usesAllRails(uint64_t bytes, uint64_t chunkBytes) const {
    return hasSeveral_ && bytes / weights_.size() >= chunkBytes;
  }
  // carries() is true if the rail carries bytes of the call. rangeOf() returns the range of a chunk
  // that the rail carries.
  bool carries(size_t rail, bool onAllRails) const { return onAllRails ? drives(rail) : rail == mainRail_; }
  ByteRange rangeOf(size_t rail, uint64_t bytes, uint64_t unit, bool onAllRails) const;

 private:
  std::vector<uint64_t> weights_;
  size_t mainRail_ = 0;
  bool hasSeveral_ = false;
};

// Returns the weights of one machine's rails for its first `maxRanks` ranks. The weight of a rank
// is in proportion to the traffic of its NICs. Ranks that drive the same NIC divide the weight of
// the NIC equally.
std::vector<uint64_t> railWeights(const LocalPlan& plan, size_t maxRanks);
// encodeRailWeights() encodes the weights that the leader of a machine brings to the gather.
// decodeRailWeights() fails unless there is one valid weight per rail.
Blob encodeRailWeights(const std::vector<uint64_t>& weights);
Result<std::vector<uint64_t>> decodeRailWeights(std::span<const uint8_t> bytes, size_t rails);
// Combines the rails of all machines: each rail gets the least weight that any machine gives it. If
// the machines have no rail in common, returns one rail, which the leaders drive.
Rails commonRails(const std::vector<std::vector<uint64_t>>& machines);

// Returns the NIC that the plan assigns to the rank, or null if it assigns none. If the plan
// assigns several NICs to the rank, returns the first.
const NicAssignment* assignmentOf(const LocalPlan& plan, size_t rank);

}  // namespace bps
