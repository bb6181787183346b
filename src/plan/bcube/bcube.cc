#include "src/plan/bcube/bcube.h"

#include <algorithm>
#include <charconv>

#include "src/base/format.h"
#include "src/plan/constants.h"

namespace bps {

Result<Bcube> Bcube::create(size_t n, size_t k) {
  if (n < 2) return failure(Code::kInvalidArgument, "n={}: a switch joins at least 2 machines", n);
  if (k < 1 || k > kMaxLevels) return failure(Code::kInvalidArgument, "k={}: must be 1 to {}", k, kMaxLevels);
  size_t machines = 1;
  for (size_t level = 0; level < k; ++level) {
    machines *= n;
    if (machines > kMaxMachines)
      return failure(Code::kInvalidArgument, "n={}, k={}: more than {} machines", n, k, kMaxMachines);
  }
  return Bcube(n, k, machines);
}

std::string Bcube::text() const { return fmt::format("BCube({},{})", n_, k_); }

size_t Bcube::power(size_t exponent) const {
  size_t result = 1;
  for (; exponent > 0; --exponent) result *= n_;
  return result;
}

size_t Bcube::neighbour(size_t address, size_t level, size_t digit) const {
  return address - this->digit(address, level) * power(level) + digit * power(level);
}

std::string Bcube::addressText(size_t address) const {
  std::string text;
  for (size_t level = 0; level < k_; ++level) {
    if (n_ > 10 && level > 0) text += '.';
    text += std::to_string(digit(address, level));
  }
  return text;
}

Result<size_t> Bcube::parseAddress(std::string_view text) const {
  const std::string_view whole = text;
  size_t address = 0;
  for (size_t level = 0; level < k_; ++level) {
    if (n_ > 10 && level > 0) {
      if (text.empty() || text.front() != '.') text = {};
      else text.remove_prefix(1);
    }
    const size_t length = n_ > 10 ? std::min(text.find('.'), text.size()) : std::min<size_t>(1, text.size());
    size_t digit = n_;
    const auto [end, error] = std::from_chars(text.data(), text.data() + length, digit);
    if (error != std::errc() || end != text.data() + length || digit >= n_)
      return failure(Code::kInvalidArgument, "\"{}\" is not an address of {}: {} digits from 0 to {}{}", whole,
                     this->text(), k_, n_ - 1, n_ > 10 ? ", separated by dots" : "");
    address += digit * power(level);
    text.remove_prefix(length);
  }
  if (!text.empty())
    return failure(Code::kInvalidArgument, "\"{}\" is not an address of {}: it has more than {} digits", whole,
                   this->text(), k_);
  return address;
}

Bcube::Cells Bcube::cells(size_t thread, size_t address, size_t steps) const {
  Cells cells{0, machines_};
  for (size_t step = 0; step < steps; ++step) {
    cells.count /= n_;
    cells.first += digit(address, levelOf(thread, step)) * cells.count;
  }
  return cells;
}

ChunkRange Bcube::elements(const Cells& cells, size_t count) const {
  const auto begin = [&](size_t cell) { return static_cast<size_t>(static_cast<uint64_t>(count) * cell / machines_); };
  return {begin(cells.first), begin(cells.first + cells.count) - begin(cells.first)};
}

double Bcube::time() const {
  const auto machines = static_cast<double>(machines_);
  return 2 * (machines - 1) / (static_cast<double>(k_) * machines);
}

std::vector<BcubeBlock> cutForBcube(const Bcube& shape, size_t count, size_t elementBytes, const BcubeLimits& limits) {
  const size_t quantum = std::max<size_t>(limits.quantumBytes / elementBytes, 1), quantumBytes = quantum * elementBytes;
  const size_t quanta = (count + quantum - 1) / quantum;
  const size_t parts = count * elementBytes <= constants::kMinBcubeBlock ? 1 : shape.k();
  const size_t longest = (quanta + parts - 1) / parts;
  const size_t wanted = std::max(longest * quantumBytes / constants::kBcubeBlocks, constants::kMinBcubeBlock);
  const size_t blockQuanta = std::max<size_t>(std::min(wanted, limits.maxBlockBytes) / quantumBytes, 1);
  const size_t rounds = std::max<size_t>((longest + blockQuanta - 1) / blockQuanta, 1);
  std::vector<BcubeBlock> blocks;
  for (size_t round = 0; round < rounds; ++round)
    for (size_t thread = 0; thread < parts; ++thread) {
      const size_t first = quanta * thread / parts, size = quanta * (thread + 1) / parts - first;
      const size_t begin = (first + size * round / rounds) * quantum;
      const size_t end = std::min((first + size * (round + 1) / rounds) * quantum, count);
      if (begin < end) blocks.push_back({thread, {begin, end - begin}});
    }
  if (blocks.empty()) blocks.push_back({});
  return blocks;
}

}  // namespace bps
