// RankTable: stores the ranks that have joined and creates the roster from them. The RankTable does no I/O and belongs
// to the RankAdmission.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "src/base/status.h"
#include "src/wire/control_messages.h"
#include "src/wire/roster.h"

namespace bps {

class RankTable {
 public:
  // `names` has a name for each rank that has not joined; if it is empty, such a rank is called "rank 5".
  explicit RankTable(const Join& hub, std::vector<std::string> names = {});

  // Admits a rank, or fails with a reason that the caller sends to this rank. If isDisagreement() is true for the
  // reason, the communicator cannot start.
  Status admit(const Join& join);
  static bool isDisagreement(const Status& refusal) { return refusal.code() == Code::kInvalidUsage; }

  bool complete() const { return joinedCount_ == ranks_.size(); }
  size_t size() const { return ranks_.size(); }
  // True if the ranks that have joined run on more than one machine.
  bool hasSeveralMachines() const { return severalMachines_; }
  std::string name(size_t rank) const;
  // Join::via of a rank, or kDirect if there is no such rank.
  uint32_t via(size_t rank) const;
  // An error text such as "2 of 8 ranks missing: 2, 5", or with the names of the ranks.
  std::string missing() const;
  // The roster of all ranks and machines, without servers. Call roster() only if complete() is true.
  Roster roster(uint64_t jobId, const JobSettings& settings) const;

 private:
  std::vector<std::optional<Join>> ranks_;
  std::vector<std::string> names_;
  size_t joinedCount_ = 0;
  bool severalMachines_ = false;
};

}  // namespace bps
