#include "src/control/hub/control_op_table.h"

#include <algorithm>

#include "src/base/format.h"
#include "src/control/control_node.h"

namespace bps {
namespace {

constexpr ControlOp kKinds[] = {ControlOp::kGather, ControlOp::kExchange, ControlOp::kBarrier, ControlOp::kSplit,
                                ControlOp::kRecovery};

bool takesPart(const std::vector<size_t>& participants, size_t participant) {
  return std::find(participants.begin(), participants.end(), participant) != participants.end();
}

}  // namespace

ControlOpTable::ControlOpTable(const Roster& roster) : roster_(roster), splits_(roster.ranks.size()) {
  for (ControlOp kind : kKinds) open(kind);
}

void ControlOpTable::open(ControlOp kind) {
  OpState& b = opState(kind);
  const size_t nRanks = roster_.ranks.size(), nServers = roster_.servers.size();
  b.participants.clear();
  if (kind == ControlOp::kExchange) {
    for (size_t rank = 0; rank < nRanks; ++rank)
      if (roster_.ranks[rank].localRank < roster_.rails()) b.participants.push_back(rank);
  } else {
    for (size_t rank = 0; rank < nRanks; ++rank) b.participants.push_back(rank);
  }
  if (!isGather(kind) && b.number == 0)
    for (size_t j = 0; j < nServers; ++j)
      if (roster_.servers[j].present) b.participants.push_back(nRanks + j);
  b.parts.assign(nRanks + nServers, std::nullopt);
  b.arrived = 0;
  b.since = b.deadline = Deadline::never();
  if (kind == ControlOp::kRecovery)
    for (size_t rank : left_) addEmpty(b, rank);
  for (size_t rank : lost_)
    if (takesPart(b.participants, rank)) addEmpty(b, rank);
}

void ControlOpTable::addEmpty(OpState& op, size_t rank) {
  if (op.parts[rank]) return;
  op.parts[rank].emplace(1);
  ++op.arrived;
}

void ControlOpTable::rankLeft(size_t rank) {
  left_.push_back(rank);
  OpState& recovery = opState(ControlOp::kRecovery);
  addEmpty(recovery, rank);
}

void ControlOpTable::rankLost(size_t rank) {
  lost_.push_back(rank);
  for (const ControlOp kind : kKinds)
    if (takesPart(opState(kind).participants, rank)) addEmpty(opState(kind), rank);
}

std::string ControlOpTable::validate(size_t participant, const ControlOpInput& part) const {
  const OpState& b = opState(part.kind);
  if (!takesPart(b.participants, participant)) return "does not take part";
  if (part.number != b.number) return fmt::format("sent an input for number {}", part.number);
  if (b.parts[participant]) return "sent its input twice";
  const size_t rails = isServer(participant) ? roster_.rails() : 1;
  const size_t wanted = isGather(part.kind) ? 1 : part.kind == ControlOp::kExchange ? rails * roster_.endpoints() : 0;
  if (part.blobs.size() != wanted) return fmt::format("sent {} items instead of {}", part.blobs.size(), wanted);
  for (const Blob& blob : part.blobs)
    if (blob.size() > kMaxItemBytes)
      return fmt::format("sent an item of {} bytes, the limit is {}", blob.size(), kMaxItemBytes);
  return {};
}

Status ControlOpTable::add(size_t participant, ControlOpInput part) {
  OpState& b = opState(part.kind);
  const std::string wrong = validate(participant, part);
  if (!wrong.empty())
    return failure(Code::kInvalidUsage, "{} broke the protocol: {} {}: {}", roster_.memberName(participant),
                   controlOpName(part.kind), b.number, wrong);
  if (b.since.at() == Deadline::never().at()) b.since = Deadline::in({});
  ++b.arrived;
  if (part.remainingMs != 0) {
    const Deadline deadline = Deadline::in(std::chrono::milliseconds(part.remainingMs));
    if (deadline.at() < b.deadline.at()) b.firstToTimeOut = participant;
    b.deadline = b.deadline.earlier(deadline);
  }
  b.parts[participant] = std::move(part.blobs);
  return {};
}

bool ControlOpTable::begun(ControlOp kind) const { return opState(kind).since.at() != Deadline::never().at(); }

bool ControlOpTable::complete(ControlOp kind) const {
  return opState(kind).arrived == opState(kind).participants.size();
}

ControlOpResult ControlOpTable::resultFor(ControlOp kind, size_t participant) const {
  const OpState& b = opState(kind);
  ControlOpResult answer{kind, b.number, {}, {}};
  if (isGather(kind))
    for (size_t from : b.participants) answer.blobs.push_back((*b.parts[from])[0]);
  if (kind != ControlOp::kExchange) return answer;
  const size_t first = isServer(participant) ? 0 : roster_.ranks[participant].localRank;
  const size_t end = isServer(participant) ? roster_.rails() : first + 1;
  for (size_t rail = first; rail < end; ++rail)
    for (size_t endpoint = 0; endpoint < roster_.endpoints(); ++endpoint)
      answer.blobs.push_back(exchanged(roster_.memberOf(endpoint, rail), participant, rail));
  return answer;
}

// Returns the item that participant `from` of an exchange sent to participant `to` on this rail. The input of a rank
// contains the items of one rail, the input of a server those of all rails.
Blob ControlOpTable::exchanged(size_t from, size_t to, size_t rail) const {
  const auto& part = opState(ControlOp::kExchange).parts[from];
  if (!part) return {};  // present servers take part in the first exchange only
  return (*part)[(isServer(from) ? rail * roster_.endpoints() : 0) + roster_.endpointOf(to)];
}

bool ControlOpTable::isTooLate(size_t participant, const ControlOpInput& part) {
  if (part.kind != ControlOp::kSplit || isServer(participant)) return false;
  uint32_t& due = splits_[participant];
  if (part.number != due || due == opState(part.kind).number) return false;
  ++due;
  return true;
}

std::vector<size_t> ControlOpTable::cancelSplit() {
  std::vector<size_t> arrived;
  for (size_t rank = 0; rank < splits_.size(); ++rank)
    if (opState(ControlOp::kSplit).parts[rank]) arrived.push_back(rank);
  for (size_t rank : arrived) ++splits_[rank];
  ++opState(ControlOp::kSplit).number;
  open(ControlOp::kSplit);
  return arrived;
}

void ControlOpTable::finish(ControlOp kind) {
  if (kind == ControlOp::kSplit)
    for (uint32_t& due : splits_) ++due;
  ++opState(kind).number;
  open(kind);
}

Deadline ControlOpTable::deadline() const {
  Deadline first = Deadline::never();
  for (const OpState& b : opStates_) first = first.earlier(b.deadline);
  return first;
}

std::optional<std::string> ControlOpTable::timeoutText() const {
  for (ControlOp kind : kKinds)
    if (kind != ControlOp::kSplit && opState(kind).deadline.passed()) return missing(kind);
  return std::nullopt;
}

std::optional<std::string> ControlOpTable::splitTimeoutText() const {
  if (!opState(ControlOp::kSplit).deadline.passed()) return std::nullopt;
  return missing(ControlOp::kSplit);
}

std::optional<std::string> ControlOpTable::missingInputText(size_t participant) const {
  for (ControlOp kind : kKinds) {
    const OpState& b = opState(kind);
    if (begun(kind) && takesPart(b.participants, participant) && !b.parts[participant])
      return fmt::format("{}: {} left without taking part", controlOpName(kind), roster_.memberName(participant));
  }
  return std::nullopt;
}

std::string ControlOpTable::missing(ControlOp kind) const {
  constexpr size_t kMostNames = 8;
  const OpState& b = opState(kind);
  std::string names;
  size_t count = 0;
  for (size_t participant : b.participants) {
    if (b.parts[participant]) continue;
    if (count++ < kMostNames) names += (names.empty() ? "" : ", ") + roster_.memberName(participant);
  }
  if (count > kMostNames) names += fmt::format(" and {} more", count - kMostNames);
  return fmt::format("{}: {} of {} participants missing: {}; waited {:g} s, the timeout of {}", controlOpName(kind),
                     count, b.participants.size(), names, secondsSince(b.since.at()),
                     roster_.memberName(b.firstToTimeOut));
}

}  // namespace bps
