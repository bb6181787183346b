#include "tools/bps_doctor/report/table.h"

#include <algorithm>
#include <cmath>

#include "src/base/format.h"

namespace bps::doctor {
namespace {

constexpr const char* kRow = "{:>8} {:<16} {:<10} {:<16} {:>7} {:>6} {:>11} {:>8} {:>8} {:>10} {:>10}  {}\n";

std::string sizeText(uint64_t bytes) {
  if (bytes == UINT64_MAX) return "unlimited";
  if (bytes >= uint64_t{10} << 30) return fmt::format("{} GiB", bytes >> 30);
  return bytes >= uint64_t{1} << 20 ? fmt::format("{} MiB", bytes >> 20) : fmt::format("{} KiB", bytes >> 10);
}

// The shortest and the longest round trip from the ranks of a machine to other machines, in microseconds.
std::string roundTripText(const Survey& survey, const Machine& machine) {
  double least = 0, most = 0;
  for (const WayResult& way : survey.ways) {
    const bool own =
        std::any_of(machine.begin(), machine.end(), [&](const Facts* each) { return each->rank == way.from; });
    if (!own || way.roundTrip == 0) continue;
    least = least == 0 ? way.roundTrip : std::min(least, way.roundTrip);
    most = std::max(most, way.roundTrip);
  }
  return most == 0 ? "-" : fmt::format("{:.0f}-{:.0f}", least * 1e6, most * 1e6);
}

std::string clockText(const Survey& survey, const Machine& machine) {
  const auto clock = survey.clocks.find(machine.front()->rank);
  return clock == survey.clocks.end() ? "-" : fmt::format("{:+.3f}", clock->second);
}

template <class Value>
Value least(const Machine& machine, Value Facts::*member) {
  Value value = machine.front()->*member;
  for (const Facts* each : machine) value = std::min(value, each->*member);
  return value;
}

std::string versionOf(const Machine& machine) {
  const std::string& first = machine.front()->version;
  const bool same =
      std::all_of(machine.begin(), machine.end(), [&](const Facts* each) { return each->version == first; });
  return same ? first : "several";
}

std::string machineRows(const Survey& survey, const Machine& machine) {
  const Facts& facts = *machine.front();
  NicFacts first{.name = "-", .address = "-"};
  std::string more;
  for (const NicFacts& nic : facts.nics) {
    if (!nic.chosen) continue;
    if (first.port == 0 && first.mtu == 0) {
      first = nic;
      continue;
    }
    const std::string rate = nic.mbps > 0 ? fmt::format("{:g}", nic.mbps / 1e3) : "?";
    more += fmt::format("{:>25} {:<10} {:<16} {:>7} {:>6}\n", "", nic.name, nic.address, rate, nic.mtu);
  }
  return fmt::format(kRow, rankList(machine), facts.host, first.name, first.address,
                     first.mbps > 0 ? fmt::format("{:g}", first.mbps / 1e3) : "?", first.mtu,
                     roundTripText(survey, machine), clockText(survey, machine), least(machine, &Facts::nofile),
                     sizeText(least(machine, &Facts::memlock)), sizeText(least(machine, &Facts::shmFree)),
                     versionOf(machine)) +
         more;
}

}  // namespace

std::string rankList(const Machine& machine) {
  std::string text;
  for (size_t first = 0; first < machine.size();) {
    size_t last = first;
    while (last + 1 < machine.size() && machine[last + 1]->rank == machine[last]->rank + 1) ++last;
    text += fmt::format("{}{}", text.empty() ? "" : ",", machine[first]->rank);
    if (last > first) text += fmt::format("-{}", machine[last]->rank);
    first = last + 1;
  }
  return text;
}

std::string machineTable(const Survey& survey) {
  std::string text = fmt::format(kRow, "ranks", "host", "interface", "address", "Gbit/s", "MTU", "RTT us", "clock s",
                                 "nofile", "memlock", "/dev/shm", "version");
  for (const Machine& machine : machinesOf(survey)) text += machineRows(survey, machine);
  return text;
}

}  // namespace bps::doctor
