// ControlOpTable: the hub's state of the current gather, split, exchange and barrier. The table stores the inputs that
// have arrived, names the missing participants and creates the results.
//
// The number of a participant is its member number: ranks 0..N-1, then servers. All ranks take part in a gather, a
// split and a barrier. The ranks whose local rank is below Roster::rails() take part in an exchange. Servers take part
// only in the first exchange and the first barrier, which confirm that the job's lanes are connected. All ranks take
// part in a recovery; a rank that has left does so with an empty item. Operations of one kind are numbered and do not
// overlap.
//
// The table belongs to the Hub, and only the control thread uses it. The table does no I/O; it only reads the clock.
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

  // Adds one participant's input. If the input breaks the protocol, add() fails with a text that says how.
  Status add(size_t participant, ControlOpInput part);
  bool complete(ControlOp kind) const;
  // True if a participant that is not lost has sent its input.
  bool begun(ControlOp kind) const;
  uint32_t number(ControlOp kind) const { return opState(kind).number; }
  // Call resultFor() only for an operation that is complete.
  const std::vector<size_t>& participants(ControlOp kind) const { return opState(kind).participants; }
  ControlOpResult resultFor(ControlOp kind, size_t participant) const;
  void finish(ControlOp kind);
  // True if the servers have confirmed that the job's lanes are connected.
  bool serversConfirmed() const { return number(ControlOp::kExchange) > 0 && number(ControlOp::kBarrier) > 0; }
  // Gives the rank an empty item in this recovery and in all later ones.
  void rankLeft(size_t rank);
  // Gives the rank an empty item in all operations, those that wait and later ones.
  void rankLost(size_t rank);

  // deadline() is the earliest deadline of all participants. timeoutText() is the error text of an operation whose
  // deadline has passed.
  Deadline deadline() const;
  std::optional<std::string> timeoutText() const;
  // splitTimeoutText() is the error text of a split whose deadline has passed. The timeout of a split does not fail the
  // communicator. cancelSplit() discards the current split with its inputs. Afterwards the table accepts inputs for the
  // next split. cancelSplit() returns the participants whose inputs were discarded, which need an error reply. If a
  // participant sends its input after the split was cancelled, isTooLate() returns true. This participant also needs an
  // error reply.
  std::optional<std::string> splitTimeoutText() const;
  std::vector<size_t> cancelSplit();
  bool isTooLate(size_t participant, const ControlOpInput& part);
  // Returns the error text for a participant that has left while an operation waits for its input. The text is empty if
  // no operation waits for this participant.
  std::optional<std::string> missingInputText(size_t participant) const;

 private:
  struct OpState {
    uint32_t number = 0;
    std::vector<size_t> participants;
    std::vector<std::optional<std::vector<Blob>>> parts;  // by participant number
    size_t arrived = 0;
    Deadline since = Deadline::never(), deadline = Deadline::never();
    size_t firstToTimeOut = 0;  // the participant whose deadline passes first
  };
  OpState& opState(ControlOp kind) { return opStates_[static_cast<size_t>(kind)]; }
  const OpState& opState(ControlOp kind) const { return opStates_[static_cast<size_t>(kind)]; }
  void open(ControlOp kind);
  static void addEmpty(OpState& op, size_t rank);
  // Describes what is wrong with an input. Empty if the input is valid.
  std::string validate(size_t participant, const ControlOpInput& part) const;
  Blob exchanged(size_t from, size_t to, size_t rail) const;
  bool isServer(size_t participant) const { return participant >= roster_.ranks.size(); }
  std::string missing(ControlOp kind) const;

  Roster roster_;
  std::array<OpState, kControlOps> opStates_;
  std::vector<size_t> left_;      // the ranks that have left
  std::vector<size_t> lost_;      // the ranks that are lost
  std::vector<uint32_t> splits_;  // for each rank, the number of splits whose outcome it knows
};

}  // namespace bps
