// RankTable: the ranks that have joined, and the roster that follows from them. Does no I/O. The RankAdmission owns it.
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
  explicit RankTable(const Join& hub);

  // Admits a rank, or fails with the reason to send to it. If isDisagreement(), the reason concerns all ranks.
  Status admit(const Join& join);
  static bool isDisagreement(const Status& refusal) { return refusal.code() == Code::kInvalidUsage; }

  bool complete() const { return joinedCount_ == ranks_.size(); }
  size_t size() const { return ranks_.size(); }
  // True if the ranks so far run on more than one machine.
  bool hasSeveralMachines() const { return severalMachines_; }
  std::string name(size_t rank) const;
  // "2 of 8 ranks missing: 2, 5"
  std::string missing() const;
  // Ranks and machines, without servers. Valid when complete.
  Roster roster(uint64_t jobId, const JobSettings& settings) const;

 private:
  std::vector<std::optional<Join>> ranks_;
  size_t joinedCount_ = 0;
  bool severalMachines_ = false;
};

}  // namespace bps
