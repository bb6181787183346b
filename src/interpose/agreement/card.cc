#include "src/interpose/agreement/card.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "src/base/env.h"
#include "src/base/format.h"
#include "src/base/wire_io.h"

namespace bps::interpose {

std::vector<uint8_t> Card::bytes() const {
  WireWriter writer;
  writer.put(version).put(static_cast<uint8_t>(able)).put(leastBytes).put(room);
  put(writer);
  Blob blob = writer.bytes();
  blob.resize(kBytes);
  return blob;
}

Result<Card> Card::parse(std::span<const uint8_t> bytes) {
  WireReader reader(bytes);
  Card card;
  card.version = reader.get<uint32_t>();
  card.able = reader.get<uint8_t>() != 0;
  card.leastBytes = reader.get<uint64_t>();
  card.room = reader.get<uint64_t>();
  card.get(reader);
  if (card.version != Card::kVersion)
    return failure(Code::kInvalidUsage, "a rank's libbps-nccl speaks version {}, ours {}; install the same everywhere",
                   card.version, Card::kVersion);
  if (reader.truncated()) return Status(Code::kRemote, "what a rank shows of itself cannot be read");
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

std::vector<uint8_t> Outcome::bytes(const Status& status, const bpsUniqueId& id) {
  const std::string why = std::string(status.message()).substr(0, 240);
  Blob blob = WireWriter().put(static_cast<uint8_t>(status.ok())).put(why).bytes();
  blob.resize(kBytes);
  std::memcpy(blob.data() + 256, id.internal, sizeof id.internal);
  return blob;
}

std::string Outcome::firstFailure(std::span<const uint8_t> all) {
  for (size_t rank = 0; (rank + 1) * kBytes <= all.size(); ++rank) {
    WireReader reader(all.subspan(rank * kBytes, 256));
    const bool well = reader.get<uint8_t>() == 1;
    const std::string why = reader.getString();
    if (!well) return fmt::format("rank {}: {}", rank, why);
  }
  return {};
}

bpsUniqueId Outcome::id(std::span<const uint8_t> all) {
  bpsUniqueId id;
  std::memcpy(id.internal, all.data() + 256, sizeof id.internal);
  return id;
}

}  // namespace bps::interpose
