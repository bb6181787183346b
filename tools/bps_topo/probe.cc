#include "tools/bps_topo/probe.h"

#include <fmt/core.h>
#include <sched.h>

#include <algorithm>
#include <barrier>
#include <chrono>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include "tools/bps_topo/machine_text.h"
#include "tools/bps_topo/network/nics.h"
#include "topo/rates.h"

namespace bps {
namespace {

constexpr size_t kBlock = size_t{64} << 20;  // bytes of each thread; larger than a thread's share of any cache
constexpr size_t kMostThreads = 16;
constexpr size_t kRepetitions = 9;

using Clock = std::chrono::steady_clock;

void runOn(const CpuSet& cpus) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (unsigned cpu : cpus.cpus())
    if (cpu < CPU_SETSIZE) CPU_SET(cpu, &set);
  if (!cpus.empty()) (void)::sched_setaffinity(0, sizeof set, &set);
}

// Measures copies. Every thread runs on the CPUs of `to` and copies from memory that the thread
// first touched on the CPUs of `from`. Returns, for each repetition, the bytes per second of all
// threads together.
std::vector<double> copyRates(const CpuSet& from, const CpuSet& to) {
  const size_t threads = std::clamp<size_t>(to.size(), 1, kMostThreads);
  std::barrier barrier(static_cast<std::ptrdiff_t>(threads));
  std::vector<double> rates;
  std::vector<std::thread> running;
  for (size_t t = 0; t < threads; ++t) {
    running.emplace_back([&, t] {
      runOn(from);
      const auto source = std::make_unique<char[]>(kBlock);
      std::memset(source.get(), 1, kBlock);
      runOn(to);
      const auto target = std::make_unique<char[]>(kBlock);
      std::memset(target.get(), 2, kBlock);
      for (size_t round = 0; round < kRepetitions + 1; ++round) {
        barrier.arrive_and_wait();
        const auto start = Clock::now();
        std::memcpy(target.get(), source.get(), kBlock);
        barrier.arrive_and_wait();
        const std::chrono::duration<double> took = Clock::now() - start;
        // The first repetition is a warm-up and is not counted.
        if (t == 0 && round > 0) rates.push_back(static_cast<double>(threads * kBlock) / took.count());
      }
    });
  }
  for (std::thread& thread : running) thread.join();
  return rates;
}

void probeMemory(TopologyBuilder& builder, std::vector<ProbeResult>& results) {
  std::vector<NodeId> numas;
  for (NodeId id = 0; id < builder.nodes().size(); ++id)
    if (builder.nodes()[id].kind == NodeKind::kNuma) numas.push_back(id);
  for (size_t i = 0; i < numas.size(); ++i) {
    Cpu& cpu = builder.node(numas[i]).cpu;
    std::vector<double> rates = copyRates(cpu.cpus, cpu.cpus);
    for (double& rate : rates) rate *= 2;  // each byte is read and written
    results.push_back(summarise(fmt::format("memory of CPU {}", i), rates, "read and written together"));
    cpu.memoryRate = results.back().bytesPerSecond;
    if (numas.size() == 1) {
      results.push_back({"CPU interconnect", 0, 0, "there is one NUMA node"});
      continue;
    }
    const size_t other = (i + 1) % numas.size();
    rates = copyRates(builder.node(numas[other]).cpu.cpus, cpu.cpus);
    results.push_back(summarise(fmt::format("memory of CPU {} read from CPU {}", other, i), rates, "one way"));
    builder.node(numas[other]).cpu.interconnectRate = results.back().bytesPerSecond;
  }
}

}  // namespace

ProbeResult summarise(std::string what, std::vector<double> rates, std::string note) {
  std::sort(rates.begin(), rates.end());
  const double median = rates[rates.size() / 2];
  return {std::move(what), median, (rates.back() - rates.front()) / median, std::move(note)};
}

Result<std::vector<ProbeResult>> probeMachine(TopologyBuilder& builder, const Env& env, const std::string& peer) {
  std::vector<ProbeResult> results, nics;
  // NICs come first. If the other machine is not reachable, the probe fails before the long
  // measurements.
  if (!peer.empty()) BPS_TRY(probeNics(peer, env, builder, nics));
  probeMemory(builder, results);
  results.push_back(probeLoopback());
  for (const Node& node : builder.nodes()) {
    if (node.kind != NodeKind::kNic || !peer.empty()) continue;
    const std::string rate = node.mbps > 0 ? fmt::format("{:g} Gbit/s", node.mbps / 1000) : "no rate";
    results.push_back({"NIC " + node.name, 0, 0, "needs another machine, see --peer; the kernel reports " + rate});
  }
  results.insert(results.end(), nics.begin(), nics.end());
  probeDevices(builder, env, results);
  return results;
}

std::string probeText(const std::vector<ProbeResult>& results) {
  std::string text;
  for (const ProbeResult& measure : results)
    text += measure.bytesPerSecond > 0
                ? fmt::format("{:<32} {:>12}  +-{:.0f} %  {}\n", measure.what, rateText(measure.bytesPerSecond),
                              50 * measure.spread, measure.note)
                : fmt::format("{:<32} {:>12}  {}\n", measure.what, "skip", measure.note);
  return text;
}

std::string probeJson(const std::vector<ProbeResult>& results) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const ProbeResult& measure : results)
    json.push_back({{"what", measure.what},
                    {"bytes_per_second", measure.bytesPerSecond},
                    {"spread", measure.spread},
                    {"skipped", measure.bytesPerSecond <= 0},
                    {"note", measure.note}});
  return json.dump(2) + "\n";
}

}  // namespace bps
