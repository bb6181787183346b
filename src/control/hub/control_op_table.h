// ControlOpTable: the hub's book of gathers, exchanges and barriers: who has brought what, who is missing, what to
// answer.
//
// Participants are numbered: ranks 0..N-1, then servers. A gather and a split are among all ranks, an exchange among
// the ranks that may have a rail and the servers, a barrier among all. Servers take part in the first exchange and the
// first barrier only, which say that the job's lanes stand. Rounds of one kind are numbered and do not overlap. Pure,
// but for the clock.
#pragma once
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "src/base/deadline.h"
#include "src/wire/control_messages.h"
#include "src/wire/roster.h"

namespace bps {

class ControlOpTable {
 public:
  explicit ControlOpTable(const Roster& roster);

  // One participant's part. Fails with what it did wrong.
  Status add(size_t participant, ControlOpInput part);
  bool complete(ControlOp kind) const;
  uint32_t number(ControlOp kind) const { return opState(kind).number; }
  // Of a complete round.
  const std::vector<size_t>& participants(ControlOp kind) const { return opState(kind).participants; }
  ControlOpResult resultFor(ControlOp kind, size_t participant) const;
  void finish(ControlOp kind);

  // The earliest end of somebody's patience, and what to say when it passes.
  Deadline deadline() const;
  std::optional<std::string> timeoutText() const;
  // The same of a split, of which the deadline ends nothing else: cancelSplit() opens the next one, and tells whom to
  // answer that. The others bring their parts later: isTooLate() is true for each, and the answer is the same.
  std::optional<std::string> splitTimeoutText() const;
  std::vector<size_t> cancelSplit();
  bool isTooLate(size_t participant, const ControlOpInput& part);
  // What to say because this participant will never bring its part; nothing if nobody waits for it.
  std::optional<std::string> missingInputText(size_t participant) const;

 private:
  struct OpState {
    uint32_t number = 0;
    std::vector<size_t> participants;
    std::vector<std::optional<std::vector<Blob>>> parts;  // by participant number
    size_t arrived = 0;
    Deadline since = Deadline::never(), deadline = Deadline::never();
    size_t firstToTimeOut = 0;  // whose patience ends at the deadline
  };
  OpState& opState(ControlOp kind) { return opStates_[static_cast<size_t>(kind)]; }
  const OpState& opState(ControlOp kind) const { return opStates_[static_cast<size_t>(kind)]; }
  void open(ControlOp kind);
  // What is wrong with a part; empty: nothing.
  std::string validate(size_t participant, const ControlOpInput& part) const;
  Blob exchanged(size_t from, size_t to, size_t rail) const;
  bool isServer(size_t participant) const { return participant >= roster_.ranks.size(); }
  std::string missing(ControlOp kind) const;

  Roster roster_;
  std::array<OpState, kControlOps> opStates_;
  std::vector<uint32_t> splits_;  // by rank: of how many it knows the end
};

}  // namespace bps
