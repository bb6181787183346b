// ControlOpTable: the hub's state of gathers, exchanges and barriers: the inputs that have arrived, the missing
// participants and the results.
//
// Participants are numbered as members: ranks 0..N-1, then servers. A gather and a split are among all ranks. An
// exchange is among the ranks that may have a rail and the servers. A barrier is among all members. Servers take part
// only in the first exchange and the first barrier, which confirm that the job's lanes are connected. Operations of one
// kind are numbered and do not overlap.
//
// The Hub owns it. It does no I/O and reads only the clock. Belongs to the control thread.
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

  // Adds one participant's input. Fails with a text that says how the participant broke the protocol.
  Status add(size_t participant, ControlOpInput part);
  bool complete(ControlOp kind) const;
  uint32_t number(ControlOp kind) const { return opState(kind).number; }
  // Valid if the operation is complete.
  const std::vector<size_t>& participants(ControlOp kind) const { return opState(kind).participants; }
  ControlOpResult resultFor(ControlOp kind, size_t participant) const;
  void finish(ControlOp kind);

  // The earliest deadline of any participant, and the error text for when it passes.
  Deadline deadline() const;
  std::optional<std::string> timeoutText() const;
  // The same for a split, whose timeout does not fail the communicator. cancelSplit() opens the next split and returns
  // the participants that need an error reply. A participant that sends its input later gets the same reply:
  // isTooLate() is true for that input.
  std::optional<std::string> splitTimeoutText() const;
  std::vector<size_t> cancelSplit();
  bool isTooLate(size_t participant, const ControlOpInput& part);
  // The error text if this participant will never send its input; nothing if no operation waits for it.
  std::optional<std::string> missingInputText(size_t participant) const;

 private:
  struct OpState {
    uint32_t number = 0;
    std::vector<size_t> participants;
    std::vector<std::optional<std::vector<Blob>>> parts;  // by participant number
    size_t arrived = 0;
    Deadline since = Deadline::never(), deadline = Deadline::never();
    size_t firstToTimeOut = 0;  // the participant whose deadline comes first
  };
  OpState& opState(ControlOp kind) { return opStates_[static_cast<size_t>(kind)]; }
  const OpState& opState(ControlOp kind) const { return opStates_[static_cast<size_t>(kind)]; }
  void open(ControlOp kind);
  // Describes what is wrong with an input; empty if nothing is.
  std::string validate(size_t participant, const ControlOpInput& part) const;
  Blob exchanged(size_t from, size_t to, size_t rail) const;
  bool isServer(size_t participant) const { return participant >= roster_.ranks.size(); }
  std::string missing(ControlOp kind) const;

  Roster roster_;
  std::array<OpState, kControlOps> opStates_;
  std::vector<uint32_t> splits_;  // by rank: the number of splits whose outcome the rank knows
};

}  // namespace bps
