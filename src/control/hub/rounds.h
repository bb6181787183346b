// Rounds: the hub's book of gathers, exchanges and barriers: who has brought what, who is missing, what to answer.
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

class Rounds {
 public:
  explicit Rounds(const Roster& roster);

  // One participant's part. Fails with what it did wrong.
  Status add(size_t participant, RoundPart part);
  bool complete(RoundKind kind) const;
  uint32_t number(RoundKind kind) const { return book(kind).number; }
  // Of a complete round.
  const std::vector<size_t>& participants(RoundKind kind) const { return book(kind).participants; }
  RoundAnswer answerTo(RoundKind kind, size_t participant) const;
  void finish(RoundKind kind);

  // The earliest end of somebody's patience, and what to say when it passes.
  Deadline deadline() const;
  std::optional<std::string> expired() const;
  // The same of a split, of which the deadline ends nothing else: giveUpSplit() opens the next one, and tells whom to
  // answer that. The others bring their parts later: comesTooLate() is true for each, and the answer is the same.
  std::optional<std::string> expiredSplit() const;
  std::vector<size_t> giveUpSplit();
  bool comesTooLate(size_t participant, const RoundPart& part);
  // What to say because this participant will never bring its part; nothing if nobody waits for it.
  std::optional<std::string> waitingFor(size_t participant) const;

 private:
  struct Book {
    uint32_t number = 0;
    std::vector<size_t> participants;
    std::vector<std::optional<std::vector<Blob>>> parts;  // by participant number
    size_t came = 0;
    Deadline since = Deadline::never(), deadline = Deadline::never();
    size_t impatient = 0;  // whose patience ends at the deadline
  };
  Book& book(RoundKind kind) { return books_[static_cast<size_t>(kind)]; }
  const Book& book(RoundKind kind) const { return books_[static_cast<size_t>(kind)]; }
  void open(RoundKind kind);
  // What is wrong with a part; empty: nothing.
  std::string mistake(size_t participant, const RoundPart& part) const;
  Blob exchanged(size_t from, size_t to, size_t rail) const;
  bool isServer(size_t participant) const { return participant >= roster_.ranks.size(); }
  std::string missing(RoundKind kind) const;

  Roster roster_;
  std::array<Book, kRoundKinds> books_;
  std::vector<uint32_t> splits_;  // by rank: of how many it knows the end
};

}  // namespace bps
