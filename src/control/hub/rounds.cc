#include "src/control/hub/rounds.h"

#include <algorithm>

#include "src/base/format.h"
#include "src/control/star.h"

namespace bps {
namespace {

constexpr RoundKind kKinds[] = {RoundKind::kGather, RoundKind::kExchange, RoundKind::kBarrier, RoundKind::kSplit};

bool takesPart(const std::vector<size_t>& participants, size_t participant) {
  return std::find(participants.begin(), participants.end(), participant) != participants.end();
}

}  // namespace

Rounds::Rounds(const Roster& roster) : roster_(roster), splits_(roster.ranks.size()) {
  for (RoundKind kind : kKinds) open(kind);
}

void Rounds::open(RoundKind kind) {
  Book& b = book(kind);
  const size_t nRanks = roster_.ranks.size(), nServers = roster_.servers.size();
  b.participants.clear();
  if (kind == RoundKind::kExchange) {
    for (size_t rank = 0; rank < nRanks; ++rank)
      if (roster_.ranks[rank].localRank < roster_.rails()) b.participants.push_back(rank);
  } else {
    for (size_t rank = 0; rank < nRanks; ++rank) b.participants.push_back(rank);
  }
  if (!gathers(kind) && b.number == 0)
    for (size_t j = 0; j < nServers; ++j) b.participants.push_back(nRanks + j);
  b.parts.assign(nRanks + nServers, std::nullopt);
  b.came = 0;
  b.since = b.deadline = Deadline::never();
}

std::string Rounds::mistake(size_t participant, const RoundPart& part) const {
  const Book& b = book(part.kind);
  if (!takesPart(b.participants, participant)) return "it has no part in it";
  if (part.number != b.number) return fmt::format("it brings number {}", part.number);
  if (b.parts[participant]) return "it takes part twice";
  const size_t rails = isServer(participant) ? roster_.rails() : 1;
  const size_t wanted = gathers(part.kind) ? 1 : part.kind == RoundKind::kExchange ? rails * roster_.endpoints() : 0;
  if (part.blobs.size() != wanted) return fmt::format("it brings {} items instead of {}", part.blobs.size(), wanted);
  for (const Blob& blob : part.blobs)
    if (blob.size() > kMostItemBytes)
      return fmt::format("it brings an item of {} bytes, {} are allowed", blob.size(), kMostItemBytes);
  return {};
}

Status Rounds::add(size_t participant, RoundPart part) {
  Book& b = book(part.kind);
  const std::string wrong = mistake(participant, part);
  if (!wrong.empty())
    return failure(Code::kInvalidUsage, "{} broke the protocol: {} {}: {}", roster_.memberName(participant),
                   roundName(part.kind), b.number, wrong);
  if (b.came++ == 0) b.since = Deadline::in({});
  if (part.patienceMs != 0) {
    const Deadline deadline = Deadline::in(std::chrono::milliseconds(part.patienceMs));
    if (deadline.at() < b.deadline.at()) b.impatient = participant;
    b.deadline = b.deadline.earlier(deadline);
  }
  b.parts[participant] = std::move(part.blobs);
  return {};
}

bool Rounds::complete(RoundKind kind) const { return book(kind).came == book(kind).participants.size(); }

RoundAnswer Rounds::answerTo(RoundKind kind, size_t participant) const {
  const Book& b = book(kind);
  RoundAnswer answer{kind, b.number, {}, {}};
  if (gathers(kind))
    for (size_t from : b.participants) answer.blobs.push_back((*b.parts[from])[0]);
  if (kind != RoundKind::kExchange) return answer;
  const size_t first = isServer(participant) ? 0 : roster_.ranks[participant].localRank;
  const size_t end = isServer(participant) ? roster_.rails() : first + 1;
  for (size_t rail = first; rail < end; ++rail)
    for (size_t endpoint = 0; endpoint < roster_.endpoints(); ++endpoint)
      answer.blobs.push_back(exchanged(roster_.memberOf(endpoint, rail), participant, rail));
  return answer;
}

// What a participant of an exchange has brought for another one on this rail; servers say it for all rails.
Blob Rounds::exchanged(size_t from, size_t to, size_t rail) const {
  const auto& part = book(RoundKind::kExchange).parts[from];
  if (!part) return {};  // a server, which takes part in the first exchange only
  return (*part)[(isServer(from) ? rail * roster_.endpoints() : 0) + roster_.endpointOf(to)];
}

bool Rounds::comesTooLate(size_t participant, const RoundPart& part) {
  if (part.kind != RoundKind::kSplit || isServer(participant)) return false;
  uint32_t& due = splits_[participant];
  if (part.number != due || due == book(part.kind).number) return false;
  ++due;
  return true;
}

std::vector<size_t> Rounds::giveUpSplit() {
  std::vector<size_t> came;
  for (size_t rank = 0; rank < splits_.size(); ++rank)
    if (book(RoundKind::kSplit).parts[rank]) came.push_back(rank);
  for (size_t rank : came) ++splits_[rank];
  ++book(RoundKind::kSplit).number;
  open(RoundKind::kSplit);
  return came;
}

void Rounds::finish(RoundKind kind) {
  if (kind == RoundKind::kSplit)
    for (uint32_t& due : splits_) ++due;
  ++book(kind).number;
  open(kind);
}

Deadline Rounds::deadline() const {
  Deadline first = Deadline::never();
  for (const Book& b : books_) first = first.earlier(b.deadline);
  return first;
}

std::optional<std::string> Rounds::expired() const {
  for (RoundKind kind : kKinds)
    if (kind != RoundKind::kSplit && book(kind).deadline.passed()) return missing(kind);
  return std::nullopt;
}

std::optional<std::string> Rounds::expiredSplit() const {
  if (!book(RoundKind::kSplit).deadline.passed()) return std::nullopt;
  return missing(RoundKind::kSplit);
}

std::optional<std::string> Rounds::waitingFor(size_t participant) const {
  for (RoundKind kind : kKinds) {
    const Book& b = book(kind);
    if (b.came > 0 && takesPart(b.participants, participant) && !b.parts[participant])
      return fmt::format("{}: {} has said goodbye without taking part", roundName(kind),
                         roster_.memberName(participant));
  }
  return std::nullopt;
}

std::string Rounds::missing(RoundKind kind) const {
  constexpr size_t kMostNames = 8;
  const Book& b = book(kind);
  std::string names;
  size_t count = 0;
  for (size_t participant : b.participants) {
    if (b.parts[participant]) continue;
    if (count++ < kMostNames) names += (names.empty() ? "" : ", ") + roster_.memberName(participant);
  }
  if (count > kMostNames) names += fmt::format(" and {} more", count - kMostNames);
  return fmt::format("{}: {} of {} participants missing: {}; waited {:g} s, as long as {} does", roundName(kind), count,
                     b.participants.size(), names, secondsSince(b.since.at()), roster_.memberName(b.impatient));
}

}  // namespace bps
