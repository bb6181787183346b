// RankTable: which ranks have come, and the roster that follows from it. Pure.
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

  // Takes a rank in, or fails with what to tell it. disagreement() tells whether it concerns everybody.
  Status admit(const Join& join);
  static bool isDisagreement(const Status& refusal) { return refusal.code() == Code::kInvalidUsage; }

  bool complete() const { return joinedCount_ == ranks_.size(); }
  size_t size() const { return ranks_.size(); }
  // Whether more than one machine is known of.
  bool hasSeveralMachines() const { return severalMachines_; }
  std::string name(size_t rank) const;
  // "2 of 8 ranks missing: 2, 5"
  std::string missing() const;
  // Ranks and machines; valid when complete. No servers.
  Roster roster(uint64_t jobId, const JobSettings& settings) const;

 private:
  std::vector<std::optional<Join>> ranks_;
  size_t joinedCount_ = 0;
  bool severalMachines_ = false;
};

}  // namespace bps
