#include "tools/bps_server/cpu_list.h"

#include <charconv>

#include "src/base/format.h"

namespace bps {
namespace {

constexpr int kMaxCpus = 1024;

Result<int> parseCpu(std::string_view text, std::string_view list) {
  int cpu = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), cpu);
  if (error != std::errc{} || end != text.data() + text.size() || cpu < 0 || cpu >= kMaxCpus)
    return failure(Code::kInvalidArgument, "--cpus {}: \"{}\" is not a CPU number from 0 to {}", list, text,
                   kMaxCpus - 1);
  return cpu;
}

}  // namespace

Result<std::vector<int>> parseCpuList(std::string_view text) {
  std::vector<int> cpus;
  std::string_view rest = text;
  while (!rest.empty()) {
    const size_t comma = rest.find(',');
    const std::string_view item = rest.substr(0, comma);
    const size_t dash = item.find('-');
    const int first = BPS_TRY(parseCpu(item.substr(0, dash), text));
    const int last = dash == std::string_view::npos ? first : BPS_TRY(parseCpu(item.substr(dash + 1), text));
    if (last < first)
      return failure(Code::kInvalidArgument, "--cpus {}: the range {} ends before it begins", text, item);
    for (int cpu = first; cpu <= last; ++cpu) cpus.push_back(cpu);
    if (comma == std::string_view::npos) break;
    rest = rest.substr(comma + 1);
    if (rest.empty()) return failure(Code::kInvalidArgument, "--cpus {}: nothing follows the last comma", text);
  }
  return cpus;
}

}  // namespace bps
