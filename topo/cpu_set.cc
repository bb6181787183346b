#include "topo/cpu_set.h"

#include <algorithm>

#include "src/base/format.h"

namespace bps {
namespace {

constexpr size_t kWordBits = 32, kWordDigits = 8;

int digitOf(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

Result<CpuSet> CpuSet::fromMask(std::string_view text) {
  CpuSet set;
  for (size_t base = 0; !text.empty(); base += kWordBits) {
    const size_t comma = text.rfind(',');
    std::string_view word = comma == std::string_view::npos ? text : text.substr(comma + 1);
    text = comma == std::string_view::npos ? std::string_view() : text.substr(0, comma);
    if (word.substr(0, 2) == "0x") word.remove_prefix(2);
    if (word.size() > kWordDigits && base + text.size() > 0)
      return failure(Code::kInvalidArgument, "\"{}\" has more than 8 digits for 32 CPUs", word);
    for (size_t i = 0; i < word.size(); ++i) {
      const int digit = digitOf(word[word.size() - 1 - i]);
      if (digit < 0) return failure(Code::kInvalidArgument, "\"{}\" is not hexadecimal", word);
      for (size_t bit = 0; bit < 4; ++bit) {
        if (((digit >> bit) & 1) == 0) continue;
        const size_t cpu = base + 4 * i + bit;
        if (cpu >= kMost) return failure(Code::kInvalidArgument, "more than {} CPUs", kMost);
        set.cpus_.push_back(static_cast<unsigned>(cpu));
      }
    }
  }
  return set;
}

CpuSet CpuSet::range(unsigned first, unsigned count) {
  CpuSet set;
  for (unsigned cpu = first; cpu < first + count; ++cpu) set.cpus_.push_back(cpu);
  return set;
}

CpuSet CpuSet::part(size_t index, size_t parts) const {
  if (size() < parts) return *this;
  CpuSet set;
  const auto begin = cpus_.begin();
  set.cpus_.assign(begin + static_cast<std::ptrdiff_t>(index * size() / parts),
                   begin + static_cast<std::ptrdiff_t>((index + 1) * size() / parts));
  return set;
}

std::string CpuSet::list() const {
  std::string text;
  for (size_t first = 0, end = 0; first < cpus_.size(); first = end) {
    end = first + 1;
    while (end < cpus_.size() && cpus_[end] == cpus_[end - 1] + 1) ++end;
    if (!text.empty()) text += ',';
    text += end - first == 1 ? fmt::format("{}", cpus_[first]) : fmt::format("{}-{}", cpus_[first], cpus_[end - 1]);
  }
  return text;
}

std::string CpuSet::mask() const {
  std::vector<uint32_t> words(cpus_.empty() ? 1 : cpus_.back() / kWordBits + 1);
  for (unsigned cpu : cpus_) words[cpu / kWordBits] |= uint32_t{1} << (cpu % kWordBits);
  std::string text;
  for (size_t i = words.size(); i-- > 0;) text += fmt::format("{}{:08x}", text.empty() ? "" : ",", words[i]);
  return text;
}

}  // namespace bps
