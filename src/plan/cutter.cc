#include "src/plan/cutter.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace bps {
namespace {

__extension__ using UInt128 = unsigned __int128;

constexpr size_t kQuantumBytes = 64;     // a cache line
constexpr size_t kMinLargeQuanta = 64;   // of a call that is cut at larger ones
constexpr size_t kPacketHeader = 66;     // of Ethernet, IPv4 and TCP
constexpr size_t kMaxShrinkDivisor = 6;  // by a sixth
constexpr size_t kFewRounds = 24;
// Of a direct call in pieces. Three packets of the loopback device, with their headers: what is a little more costs a
// packet for the rest, with pieces of 64 KiB a fifth of the time.
constexpr size_t kExchangePieceBytes = 191U << 10;

size_t ceilDivide(size_t a, size_t b) { return a / b + (a % b != 0 ? 1 : 0); }

size_t largestIndex(const std::vector<size_t>& values) {
  return static_cast<size_t>(std::max_element(values.begin(), values.end()) - values.begin());
}

// A call whose owners have chunks of c bytes loses the time of about one such round at its ends, c, and what its chunks
// cost, cost * share / c: together least where c * c = cost * share. The share is the mean one: the chunks of the small
// shares of unequal owners cost as much as those of the large ones.
size_t roundsFor(size_t quanta, size_t meanQuanta, size_t quantumBytes, const CutLimits& limits) {
  const size_t most = std::max<size_t>(1, limits.maxChunkBytes / quantumBytes);
  const size_t unit = std::max<size_t>(1, limits.targetChunkBytes / quantumBytes);
  const double mean = static_cast<double>(meanQuanta) * static_cast<double>(quantumBytes);
  const auto best = static_cast<size_t>(std::sqrt(mean / static_cast<double>(limits.chunkCostBytes)));
  const size_t finest = meanQuanta / std::max<size_t>(1, limits.minChunkBytes / quantumBytes);
  const size_t wanted = std::max({size_t{1}, ceilDivide(quanta, unit), std::min(best, finest)});
  return std::max(ceilDivide(quanta, most), std::min(wanted, quanta));
}

// A chunk of two rounds, one under way, is to come back before the next is due. With shares of a third of the largest
// and more, machines fall out of step over that; in a call of few rounds with smaller ones, too
// (docs/how-the-cut-works.md).
void mergeChunksOfSmallShares(Cut& cut) {
  if (cut.rounds < 2) return;
  const size_t limit = cut.largest / 10 * (cut.rounds < kFewRounds ? 2 : 3);
  for (size_t owner = 0; owner < cut.share.size(); ++owner) cut.span[owner] = cut.share[owner].count <= limit ? 2 : 1;
}

// Elements of the share of an owner that has a chunk in every round; those with one in two count as half of one.
size_t meanShare(const Cut& cut, size_t count) {
  size_t halves = 0;
  for (size_t owner = 0; owner < cut.share.size(); ++owner)
    if (cut.share[owner].count > 0) halves += 2 / cut.span[owner];
  return static_cast<size_t>(UInt128{count} * 2 / std::max<size_t>(1, halves));
}

// What a share of so many quanta in so many parts costs beside its bytes.
size_t overhead(size_t quanta, size_t parts, size_t quantumBytes, const CutLimits& limits) {
  const size_t message = ceilDivide(quanta, parts) * quantumBytes + limits.headerBytes;
  return parts * (limits.messageCostBytes + kPacketHeader * ceilDivide(message, limits.packetBytes));
}

// A share in so many parts, or in a few more that just fill one packet less each, whichever costs less. Larger parts
// would cost even less, but make too much be under way; many more, too little where few are.
size_t partsFillingPackets(size_t quanta, size_t parts, size_t quantumBytes, const CutLimits& limits) {
  if (limits.packetBytes == 0 || parts < 2) return parts;
  const size_t message = ceilDivide(quanta, parts) * quantumBytes + limits.headerBytes;
  const size_t fuller = (message - 1) / limits.packetBytes * limits.packetBytes;
  if (fuller < limits.headerBytes + quantumBytes) return parts;
  const size_t more = ceilDivide(quanta, (fuller - limits.headerBytes) / quantumBytes);
  if (more - parts > parts / kMaxShrinkDivisor) return parts;
  return overhead(quanta, more, quantumBytes, limits) < overhead(quanta, parts, quantumBytes, limits) ? more : parts;
}

// Chunks per owner, in so many rounds.
std::vector<size_t> chunksPerOwner(size_t rounds, const Cut& cut, size_t quantumBytes, const CutLimits& limits) {
  std::vector<size_t> chunks(cut.share.size());
  for (size_t owner = 0; owner < chunks.size(); ++owner) {
    const size_t quanta = ceilDivide(cut.share[owner].count, cut.quantum), span = cut.span[owner];
    chunks[owner] = std::min(quanta, ceilDivide(rounds, span));
    if (span > 1) chunks[owner] = std::min(partsFillingPackets(quanta, chunks[owner], quantumBytes, limits), rounds);
  }
  return chunks;
}

// As many rounds as the cut has, or a few more: those in which the chunks of all owners together cost least. The ones
// looked at are where those of the largest share fill their packets, and those of the smallest that has one in each.
size_t roundsFillingPackets(const Cut& cut, size_t quantumBytes, const CutLimits& limits) {
  if (limits.packetBytes == 0 || cut.rounds < 2) return cut.rounds;
  size_t least = cut.largest;
  for (size_t owner = 0; owner < cut.share.size(); ++owner)
    if (cut.share[owner].count > 0 && cut.span[owner] == 1) least = std::min(least, cut.share[owner].count);
  const auto cost = [&](size_t rounds) {
    const std::vector<size_t> chunks = chunksPerOwner(rounds, cut, quantumBytes, limits);
    size_t sum = 0;
    for (size_t owner = 0; owner < chunks.size(); ++owner)
      if (chunks[owner] > 0)
        sum += overhead(ceilDivide(cut.share[owner].count, cut.quantum), chunks[owner], quantumBytes, limits);
    return sum;
  };
  size_t best = cut.rounds, lowest = cost(best);
  for (const size_t share : {cut.largest, least}) {
    const size_t rounds = partsFillingPackets(ceilDivide(share, cut.quantum), cut.rounds, quantumBytes, limits);
    if (rounds == best) continue;
    const size_t there = cost(rounds);
    if (there >= lowest) continue;
    best = rounds;
    lowest = there;
  }
  return best;
}

// A direct call of more than a chunk: pieces are summed while the next ones are on their way.
size_t exchangeRounds(size_t quanta, size_t quantumBytes, const CutLimits& limits) {
  if (quanta <= limits.maxChunkBytes / quantumBytes) return 1;
  return ceilDivide(quanta, std::max<size_t>(1, std::min(limits.maxChunkBytes, kExchangePieceBytes) / quantumBytes));
}

}  // namespace

size_t Cut::roundOf(size_t owner, size_t r) const {
  return static_cast<size_t>((UInt128{r} * rounds + chunks[owner] - 1) / chunks[owner]);
}

ChunkRange Cut::chunk(size_t owner, size_t r) const {
  const ChunkRange& whole = share[owner];
  const size_t parts = chunks[owner];
  const size_t quanta = ceilDivide(whole.count, quantum);
  const auto border = [&](size_t i) {
    return i == parts ? whole.count : static_cast<size_t>(UInt128{quanta} * i / parts) * quantum;
  };
  return {whole.offset + border(r), border(r + 1) - border(r)};
}

Cutter::Cutter(std::vector<uint64_t> weights, CutLimits limits)
    : weights_(std::move(weights)),
      total_(std::accumulate(weights_.begin(), weights_.end(), Int128{0})),
      limits_(limits),
      credit_(weights_.size(), 0) {}

// Owner o will be owed E bytes after (E * total - credit_o) / weight_o more bytes of calls. Taking the least of these
// among the owners with credit_o >= 0 is earliest deadline first: no owner is served before its turn, nor, when E is
// the size of the calls, later than one call after it.
size_t Cutter::chooseChecker() const {
  if (limits_.exchangeMachines > 0) return calls_ % limits_.exchangeMachines;
  const Int128 whole = total_ * largestSingleOwnerCall_;
  size_t best = weights_.size();
  for (size_t owner = 0; owner < weights_.size(); ++owner) {
    if (weights_[owner] == 0 || credit_[owner] < 0) continue;
    if (best == weights_.size() ||
        (whole - credit_[owner]) * weights_[best] < (whole - credit_[best]) * weights_[owner])
      best = owner;
  }
  return best;  // exists: the credits of owners with a weight add up to at least 0
}

// What is due to each owner, rounded down, and one more element for those with the largest remainders. Owners that
// are in debt by more than their share of this call get nothing; the others then together have too many elements due,
// and the largest shares do without them until the next call.
std::vector<size_t> Cutter::divide(size_t count, size_t elementBytes) const {
  const Int128 perElement = total_ * elementBytes;
  const Int128 bytes = Int128{1} * count * elementBytes;
  std::vector<size_t> elements(weights_.size(), 0);
  std::vector<std::pair<Int128, size_t>> remainders;  // negative, so that sorting puts the largest first
  Int128 left = count;
  for (size_t owner = 0; owner < weights_.size(); ++owner) {
    if (weights_[owner] == 0) continue;
    const Int128 due = std::max(Int128{0}, bytes * weights_[owner] + credit_[owner]);
    elements[owner] = static_cast<size_t>(due / perElement);
    remainders.emplace_back(-(due % perElement), owner);
    left -= elements[owner];
  }
  std::sort(remainders.begin(), remainders.end());
  for (size_t i = 0; left > 0; i = (i + 1) % remainders.size(), --left) ++elements[remainders[i].second];
  while (left < 0) {
    size_t& largest = elements[largestIndex(elements)];
    const Int128 taken = std::min(-left, Int128{largest});
    largest -= static_cast<size_t>(taken);
    left += taken;
  }
  return elements;
}

// What is less than a quantum goes to the last of those that have a share; a call of no more than that to whom most is
// owed.
std::vector<size_t> Cutter::divideByQuanta(size_t count, size_t quantum, size_t elementBytes) const {
  std::vector<size_t> elements = divide(count / quantum, quantum * elementBytes);
  for (size_t& share : elements) share *= quantum;
  size_t last = weights_.size();
  for (size_t owner = 0; owner < weights_.size(); ++owner)
    if (weights_[owner] > 0 && (last == weights_.size() || credit_[owner] > credit_[last])) last = owner;
  for (size_t owner = 0; owner < elements.size(); ++owner)
    if (elements[owner] > 0) last = owner;
  elements[last] += count % quantum;
  return elements;
}

Cut Cutter::next(size_t count, size_t elementBytes, const CutLimits& limits) {
  Cut cut;
  cut.checker = chooseChecker();
  ++calls_;
  const Int128 bytes = Int128{1} * count * elementBytes;
  const size_t quantumBytes = bytes < kMinLargeQuanta * limits.quantumBytes ? kQuantumBytes : limits.quantumBytes;
  cut.quantum = std::max<size_t>(1, quantumBytes / elementBytes);
  cut.share.resize(weights_.size());
  cut.span.resize(weights_.size(), 1);
  cut.chunks.resize(weights_.size());
  if (limits_.exchangeMachines > 0 && bytes <= limits.exchangeBytes) {
    cut.usesExchangePath = true;
    cut.share.front().count = cut.largest = count;
    cut.rounds = exchangeRounds(ceilDivide(count, cut.quantum), cut.quantum * elementBytes, limits);
    cut.chunks.front() = std::min(cut.rounds, ceilDivide(count, cut.quantum));
    return cut;
  }
  const bool singleOwner = bytes <= limits.singleOwnerBytes;
  std::vector<size_t> elements(weights_.size(), 0);
  if (singleOwner) {
    elements[cut.checker] = count;
    largestSingleOwnerCall_ = std::max(largestSingleOwnerCall_, static_cast<size_t>(bytes));
  } else {
    elements = divideByQuanta(count, cut.quantum, elementBytes);
  }
  size_t offset = 0;
  for (size_t owner = 0; owner < elements.size(); ++owner) {
    cut.share[owner] = {offset, elements[owner]};
    offset += elements[owner];
    credit_[owner] += bytes * weights_[owner] - total_ * elements[owner] * elementBytes;
  }
  cut.largest = elements[largestIndex(elements)];
  const size_t quanta = ceilDivide(cut.largest, cut.quantum);
  if (singleOwner) {
    cut.rounds = ceilDivide(quanta, std::max<size_t>(1, limits.maxChunkBytes / quantumBytes));
  } else {
    const auto wanted = [&] {
      return roundsFor(quanta, ceilDivide(meanShare(cut, count), cut.quantum), quantumBytes, limits);
    };
    cut.rounds = wanted();
    mergeChunksOfSmallShares(cut);
    cut.rounds = wanted();
    cut.rounds = roundsFillingPackets(cut, quantumBytes, limits);
  }
  cut.chunks = chunksPerOwner(cut.rounds, cut, quantumBytes, limits);
  return cut;
}

}  // namespace bps
