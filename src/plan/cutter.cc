#include "src/plan/cutter.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace bps {
namespace {

__extension__ using UInt128 = unsigned __int128;

// The largest window without the rounds in which chunks are sent and answered, and without the spare rounds.
constexpr double kLatencyRounds = constants::kMaxWindow - constants::kMinWindow - constants::kSpareRounds;

size_t ceilDivide(size_t a, size_t b) { return a / b + (a % b != 0 ? 1 : 0); }

size_t largestIndex(const std::vector<size_t>& values) {
  return static_cast<size_t>(std::max_element(values.begin(), values.end()) - values.begin());
}

// Returns the mean number of elements of the shares that are not empty. A chunk of a small share
// costs as much as a chunk of a large share, so the mean share decides how many chunks a call can
// afford.
size_t meanShare(const std::vector<size_t>& elements, size_t count) {
  const auto owners = elements.size() - static_cast<size_t>(std::count(elements.begin(), elements.end(), size_t{0}));
  return count / std::max<size_t>(1, owners);
}

// Returns the number of rounds of a split call. `largest` and `mean` are the sizes of the largest
// and of the mean share, in quanta.
size_t roundsFor(size_t largest, size_t mean, size_t quantumBytes, const CutLimits& limits) {
  const auto quantaOf = [&](size_t bytes) { return std::max<size_t>(1, bytes / quantumBytes); };
  const double meanBytes = static_cast<double>(mean) * static_cast<double>(quantumBytes);
  const auto cheapest = static_cast<size_t>(std::sqrt(meanBytes / static_cast<double>(limits.chunkCostBytes)));
  const auto bridged = static_cast<size_t>(static_cast<double>(limits.latencyBytes) / kLatencyRounds);
  const size_t least = std::max(constants::kMinChunkBytes, bridged);
  const size_t finest = mean / quantaOf(std::min(least, limits.targetChunkBytes));
  const size_t coarsest = ceilDivide(largest, quantaOf(limits.targetChunkBytes));
  const size_t wanted = std::max({size_t{1}, coarsest, std::min(cheapest, finest)});
  return std::max(ceilDivide(largest, quantaOf(limits.maxChunkBytes)), std::min(wanted, largest));
}

// The window of a call with so many rounds, of which each has so many bytes of the largest share.
size_t windowFor(size_t rounds, size_t chunkBytes, const CutLimits& limits) {
  const double latencyRounds =
      static_cast<double>(limits.latencyBytes) / static_cast<double>(std::max<size_t>(1, chunkBytes));
  const double spare = std::min(constants::kSpareRounds, constants::kMaxSpareShare * static_cast<double>(rounds));
  return constants::kMinWindow + static_cast<size_t>(std::ceil(std::min(latencyRounds, kLatencyRounds) + spare));
}

}  // namespace

ChunkRange Cut::chunk(size_t owner, size_t r) const {
  const ChunkRange& whole = share[owner];
  const size_t parts = chunks[owner];
  const size_t quanta = ceilDivide(whole.count, quantum);
  const auto boundary = [&](size_t i) {
    return i == parts ? whole.count : static_cast<size_t>(UInt128{quanta} * i / parts) * quantum;
  };
  return {whole.offset + boundary(r), boundary(r + 1) - boundary(r)};
}

Cutter::Cutter(std::vector<uint64_t> weights, CutLimits limits)
    : weights_(std::move(weights)),
      total_(std::accumulate(weights_.begin(), weights_.end(), Int128{0})),
      limits_(limits),
      credit_(weights_.size(), 0) {}

void Cutter::setWeights(std::vector<uint64_t> weights) {
  weights_ = std::move(weights);
  total_ = std::accumulate(weights_.begin(), weights_.end(), Int128{0});
  forgetCalls();
}

// Owner o will be owed E bytes after (E * total - credit_o) / weight_o more bytes of calls. The
// function compares this number for the owners with credit_o >= 0 and chooses the owner with the
// least number. This is the rule "earliest deadline first". No owner is served before its turn. If
// E is the size of the calls, every owner is served at most one call after its turn.
size_t Cutter::chooseChecker() const {
  const Int128 whole = total_ * largestSingleOwnerCall_;
  size_t best = weights_.size();
  for (size_t owner = 0; owner < weights_.size(); ++owner) {
    if (weights_[owner] == 0 || credit_[owner] < 0) continue;
    if (best == weights_.size() ||
        (whole - credit_[owner]) * weights_[best] < (whole - credit_[best]) * weights_[owner])
      best = owner;
  }
  return best;  // valid, because the credits of owners with a weight add up to at least 0
}

// Gives each owner the elements that are due to it, rounded down. The owners with the largest
// remainders get one more element each, until no element is left. An owner gets nothing if it
// received too much earlier and its share of this call is smaller than that excess. The elements of
// the other owners then add up to more than the call has, and the largest shares are reduced. The
// credits make up for the reduction in later calls.
std::vector<size_t> Cutter::divide(size_t count, size_t elementBytes) const {
  const Int128 perElement = total_ * elementBytes;
  const Int128 bytes = Int128{1} * count * elementBytes;
  std::vector<size_t> elements(weights_.size(), 0);
  std::vector<std::pair<Int128, size_t>> remainders;  // negated, so that sorting puts the largest remainder first
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

// The elements that do not fill a quantum go to the last owner that has a share. If the whole call
// does not fill a quantum, it goes to the owner with the largest credit.
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

void Cutter::assignShares(Cut& cut, const std::vector<size_t>& elements, size_t elementBytes) {
  const size_t count = std::accumulate(elements.begin(), elements.end(), size_t{0});
  const Int128 bytes = Int128{1} * count * elementBytes;
  size_t offset = 0;
  for (size_t owner = 0; owner < elements.size(); ++owner) {
    cut.share[owner] = {offset, elements[owner]};
    offset += elements[owner];
    credit_[owner] += bytes * weights_[owner] - total_ * elements[owner] * elementBytes;
  }
}

Cut Cutter::next(size_t count, size_t elementBytes, const CutLimits& limits) {
  Cut cut;
  cut.checker = chooseChecker();
  const Int128 bytes = Int128{1} * count * elementBytes;
  const bool isSmall = bytes < constants::kMinLocalQuanta * limits.quantumBytes;
  const size_t quantumBytes = isSmall ? constants::kQuantumBytes : limits.quantumBytes;
  const auto maxQuanta = [&](size_t chunkBytes) { return std::max<size_t>(1, chunkBytes / quantumBytes); };
  cut.quantum = std::max<size_t>(1, quantumBytes / elementBytes);
  cut.share.resize(weights_.size());
  const auto quantaOf = [&](size_t elements) { return ceilDivide(elements, cut.quantum); };
  std::vector<size_t> elements(weights_.size(), 0);
  size_t largest = count;  // elements of the largest share
  if (limits.exchangeChunkBytes > 0 && bytes <= limits.exchangeBytes) {
    cut.usesExchangePath = true;
    cut.share.front().count = count;
    cut.rounds = std::max<size_t>(1, ceilDivide(quantaOf(count), maxQuanta(limits.exchangeChunkBytes)));
  } else if (bytes <= limits.singleOwnerBytes) {
    elements[cut.checker] = count;
    assignShares(cut, elements, elementBytes);
    largestSingleOwnerCall_ = std::max(largestSingleOwnerCall_, static_cast<size_t>(bytes));
    cut.rounds = ceilDivide(quantaOf(count), maxQuanta(limits.maxChunkBytes));
  } else {
    elements = divideByQuanta(count, cut.quantum, elementBytes);
    assignShares(cut, elements, elementBytes);
    largest = elements[largestIndex(elements)];
    cut.rounds = roundsFor(quantaOf(largest), quantaOf(meanShare(elements, count)), quantumBytes, limits);
  }
  cut.window = windowFor(cut.rounds, largest * elementBytes / std::max<size_t>(1, cut.rounds), limits);
  for (const ChunkRange& share : cut.share) cut.chunks.push_back(std::min(cut.rounds, quantaOf(share.count)));
  return cut;
}

}  // namespace bps
