#include "src/interpose/agreement/card.h"

#include <algorithm>
#include <map>
#include <set>

#include "src/base/env.h"
#include "src/base/format.h"
#include "src/base/wire_io.h"

namespace bps::interpose {

std::vector<uint8_t> Card::bytes() const {
  Blob blob = WireWriter()
                  .put(version)
                  .put(machine)
                  .put(static_cast<uint8_t>(able))
                  .put(static_cast<uint8_t>(hasServers))
                  .put(leastBytes)
                  .put(room)
                  .put(team)
                  .put(static_cast<uint8_t>(anyOrder))
                  .put(why.substr(0, 200))
                  .bytes();
  blob.resize(kBytes);
  return blob;
}

Result<Card> Card::parse(std::span<const uint8_t> bytes) {
  WireReader reader(bytes);
  Card card;
  card.version = reader.get<uint32_t>();
  card.machine = reader.get<uint64_t>();
  card.able = reader.get<uint8_t>() != 0;
  card.hasServers = reader.get<uint8_t>() != 0;
  card.leastBytes = reader.get<uint64_t>();
  card.room = reader.get<uint64_t>();
  card.team = reader.get<uint64_t>();
  card.anyOrder = reader.get<uint8_t>() != 0;
  card.why = reader.getString();
  if (card.version != Card::kVersion)
    return failure(Code::kInvalidUsage, "a rank's libbps-nccl speaks version {}, ours {}; install the same everywhere",
                   card.version, Card::kVersion);
  return card;
}

Conclusion conclude(std::span<const Card> cards) {
  Conclusion what;
  std::set<uint64_t> machines;
  what.room = SIZE_MAX;
  for (const Card& card : cards) {
    machines.insert(card.machine);
    what.room = std::min<size_t>(what.room, card.room);
  }
  what.machines = machines.size();
  const bool given = cards[0].leastBytes != Bytes::kMeasured;
  for (size_t rank = 0; rank < cards.size(); ++rank)
    if (!cards[rank].able && what.reason.empty()) what.reason = fmt::format("rank {}: {}", rank, cards[rank].why);
  if (!what.reason.empty()) return what;
  if (machines.size() < 2) {
    what.reason = "one machine";
    return what;
  }
  if (!cards[0].hasServers && !given) {
    what.reason = "BPS_SERVERS is not set on rank 0";
    return what;
  }
  what.join = true;
  what.measure = !given;
  what.leastBytes = given ? cards[0].leastBytes : 0;
  what.reason = given ? "BPS_NCCL_MIN_BYTES" : "measured";
  return what;
}

size_t crossOver(std::span<const Timing> timings) {
  size_t least = kNever;
  for (size_t i = timings.size(); i-- > 0 && timings[i].bps < timings[i].nccl;) least = timings[i].bytes;
  return least;
}

namespace {

std::string reasonAgainst(std::span<const Card> cards, const std::map<uint64_t, int>& sizes, bool oneTeamEach) {
  for (size_t rank = 0; rank < cards.size(); ++rank)
    if (cards[rank].team == 0) return fmt::format("rank {} has no team", rank);
  const int largest = std::max_element(sizes.begin(), sizes.end(), [](const auto& a, const auto& b) {
                        return a.second < b.second;
                      })->second;
  if (largest == 1) return "no two GPUs share a machine or a switch";
  // A sum of two has no order; that of more would depend on NCCL's.
  if (!cards[0].anyOrder && (largest > 2 || !oneTeamEach))
    return "more than two ranks share a machine, so sums would depend on NCCL's order (BPS_NCCL_LOCAL=any)";
  return {};
}

}  // namespace

int Teams::placeOf(int rank) const {
  const auto begin = leads.begin();
  return static_cast<int>(std::count(begin, begin + rank, leads[static_cast<size_t>(rank)]));
}

int Teams::sizeOf(int rank) const {
  return static_cast<int>(std::count(leads.begin(), leads.end(), leads[static_cast<size_t>(rank)]));
}

std::string Teams::ownersOf(int part) const {
  std::string ranks;
  for (int rank = 0; rank < static_cast<int>(leads.size()); ++rank)
    if (placeOf(rank) == part) ranks += (ranks.empty() ? "" : ", ") + std::to_string(rank);
  return ranks;
}

Teams teamsOf(std::span<const Card> cards) {
  Teams teams;
  std::map<uint64_t, int> leads, sizes;
  std::map<uint64_t, uint64_t> teamOf;  // by machine
  bool oneTeamEach = true;
  for (size_t rank = 0; rank < cards.size(); ++rank) {
    const Card& card = cards[rank];
    teams.leads.push_back(leads.emplace(card.team, static_cast<int>(rank)).first->second);
    ++sizes[card.team];
    oneTeamEach = teamOf.emplace(card.machine, card.team).first->second == card.team && oneTeamEach;
  }
  teams.anyOrder = cards[0].anyOrder;
  teams.why = reasonAgainst(cards, sizes, oneTeamEach);
  if (!teams.why.empty()) return teams;
  teams.owners = std::min_element(sizes.begin(), sizes.end(), [](const auto& a, const auto& b) {
                   return a.second < b.second;
                 })->second;
  // Who is rank 0 of a communicator of bps finds the servers, and it is to be all the same which part one owns.
  for (int part = 0; part < teams.owners; ++part)
    for (size_t rank = 0; rank < cards.size(); ++rank)
      if (teams.leads[rank] == 0 && teams.placeOf(static_cast<int>(rank)) == part &&
          cards[rank].hasServers != cards[0].hasServers)
        teams.why = fmt::format("BPS_SERVERS is not set alike on ranks 0 and {}", rank);
  if (!teams.why.empty()) teams.owners = 0;
  return teams;
}

}  // namespace bps::interpose
