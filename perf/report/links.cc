// Reports the bytes that rank 0's machine moved over each of its links in the whole run, on lines
// that begin with "#". The report is printed only if a rank is on a GPU or the machine has several
// NUMA nodes.
#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "perf/report/report.h"

namespace bps::perf {
namespace {

using Facts = nlohmann::json;

double gigabytes(const Facts& bytes) { return bytes.get<double>() / 1e9; }

double sum(const Facts& kinds) {
  double all = 0;
  for (const auto& bytes : kinds) all += gigabytes(bytes);
  return all;
}

bool hasTraffic(const Facts& machine) {
  for (const auto& seat : machine["ranks"])
    if (seat.get<std::string>().starts_with("GPU ")) return true;
  size_t memories = 0;
  for (const auto& link : machine["links"]) memories += link["link"].get<std::string>().ends_with(" - memory") ? 1 : 0;
  return memories > 1;
}

// Returns the gigabytes of each kind of copy, up and down, as in "peer 0.05 0.05, nic 0.1 0.1".
std::string kindsText(const Facts& link) {
  std::string text;
  for (const char* kind : {"peer", "staging", "sum", "nic"}) {
    const double up = link["up"].contains(kind) ? gigabytes(link["up"][kind]) : 0;
    const double down = link["down"].contains(kind) ? gigabytes(link["down"][kind]) : 0;
    if (up + down > 0) text += fmt::format("{}{} {:.6g} {:.6g}", text.empty() ? "" : ", ", kind, up, down);
  }
  return text;
}

}  // namespace

std::string linksText(const std::string& description) {
  const Facts facts = Facts::parse(description, nullptr, false);
  if (!facts.is_object() || !facts.contains("machine") || !hasTraffic(facts["machine"])) return {};
  const Facts& machine = facts["machine"];
  std::string text = fmt::format("# links of {} by {}: {} calls, {:.6g} GB; GB towards the CPU and from it\n",
                                 machine["host"].get<std::string>(), machine["strategy"].get<std::string>(),
                                 machine["calls"].get<uint64_t>(), gigabytes(machine["bytes"]));
  for (const auto& link : machine["links"]) {
    const double up = sum(link["up"]), down = sum(link["down"]);
    if (up + down == 0) continue;
    text +=
        fmt::format("# {:<32} {:>10.6g} {:>10.6g}  {}\n", link["link"].get<std::string>(), up, down, kindsText(link));
  }
  return text;
}

}  // namespace bps::perf
