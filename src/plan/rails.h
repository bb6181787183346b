// Rails: which ranks of a machine drive the network, and which part of a call each of them carries. Pure.
//
// Rail r joins the local ranks r of all machines: each has connections of its own to the other machines' ranks r and to
// the servers, and a summation service of its own. Nothing on one rail waits for another one, but the ring of the
// machine's slots (local/local_ring.h), in which a chunk is whole when all its parts are.
//
// A large call goes over all rails: of every chunk each carries the part that the plan says its rank owns, in
// proportion to the rate of its NIC. Other calls go over the main rail alone, where a message costs more than its
// bytes. The main rail hears of every chunk, if only of a part of it: so ranks that disagree always meet there.
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
  // One: the leaders.
  Rails() : Rails(std::vector<uint64_t>{1}) {}
  // By local rank; 0: not a rail. At least one is positive.
  explicit Rails(std::vector<uint64_t> weights);

  size_t mainRail() const { return mainRail_; }
  bool hasSeveral() const { return hasSeveral_; }
  bool drives(size_t localRank) const { return localRank < weights_.size() && weights_[localRank] > 0; }
  std::vector<size_t> drivers() const;

  // A call of so many bytes goes over all rails: it has a chunk for each.
  bool usesAllRails(uint64_t bytes, uint64_t chunkBytes) const {
    return hasSeveral_ && bytes / weights_.size() >= chunkBytes;
  }
  // What the rail carries of every chunk of a call.
  bool carries(size_t rail, bool onAllRails) const { return onAllRails ? drives(rail) : rail == mainRail_; }
  ByteRange rangeOf(size_t rail, uint64_t bytes, uint64_t unit, bool onAllRails) const;

 private:
  std::vector<uint64_t> weights_;
  size_t mainRail_ = 0;
  bool hasSeveral_ = false;
};

// The weights of one machine's rails, for its first `maxRanks` ranks: the part of the machine's traffic that each
// rank's NICs take. Ranks that drive the same NIC share its part.
std::vector<uint64_t> railWeights(const LocalPlan& plan, size_t maxRanks);
// What the leader of a machine brings to the gather about rails, and back, checked: one weight for each, none beyond
// what a machine's are worth.
Blob encodeRailWeights(const std::vector<uint64_t>& weights);
Result<std::vector<uint64_t>> decodeRailWeights(std::span<const uint8_t> bytes, size_t rails);
// What is common to all machines: a rail is as good as its worst end. Where they have none in common, the leaders'.
Rails commonRails(const std::vector<std::vector<uint64_t>>& machines);

// What the plan says that the rank drives; the first NIC of several. Null: nothing.
const NicAssignment* assignmentOf(const LocalPlan& plan, size_t rank);

}  // namespace bps
