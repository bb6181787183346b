#include "tools/bps_trace/report.h"

#include <algorithm>
#include <map>

#include "src/base/format.h"
#include "src/plan/shares.h"

namespace bps::trace {
namespace {

using Kind = Segment::Kind;

constexpr double kLeastShare = 0.01;  // smaller shares of the time are not shown
constexpr double kLeastGain = 1.03;   // smaller gains are not worth a line
constexpr double kSlowRatio = 1.2;    // a link is slow if a contribution takes longer by this factor
constexpr size_t kMostSizes = 4;      // lines of sizes

double seconds(uint64_t nanoseconds) { return static_cast<double>(nanoseconds) / 1e9; }
double part(uint64_t some, uint64_t all) { return all == 0 ? 0 : static_cast<double>(some) / static_cast<double>(all); }
std::string bytesText(uint64_t bytes) {
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB"};
  size_t unit = 0;
  auto value = static_cast<double>(bytes);
  for (; value >= 1024 && unit < 3; ++unit) value /= 1024;
  return fmt::format("{:.4g} {}", value, kUnits[unit]);
}
std::string timeText(double value) {
  if (value < 1e-3) return fmt::format("{:.4g} us", value * 1e6);
  return value < 1 ? fmt::format("{:.4g} ms", value * 1e3) : fmt::format("{:.4g} s", value);
}

struct Totals {
  uint64_t all = 0;
  std::map<Kind, uint64_t> byKind;
  std::map<size_t, uint64_t> waitForRank, owner;  // by rank and by endpoint
  std::map<size_t, uint64_t> network;             // by endpoint; a segment counts at both ends
  uint64_t onLanes = 0;                           // network and owners, except the exchange path
};

Totals totalsOf(const std::vector<Segment>& path) {
  Totals totals;
  for (const Segment& segment : path) {
    const uint64_t length = segment.length();
    totals.all += length;
    totals.byKind[segment.kind] += length;
    if (segment.kind == Kind::kWaitForRank) totals.waitForRank[segment.at] += length;
    if (segment.kind == Kind::kOwner) totals.owner[segment.at] += length;
    if (segment.kind == Kind::kNetwork) {
      totals.network[segment.at] += length;
      if (segment.to != segment.at) totals.network[segment.to] += length;
    }
    const bool transfer = segment.kind == Kind::kNetwork || segment.kind == Kind::kOwner;
    if (transfer && !segment.onExchangePath) totals.onLanes += length;
  }
  return totals;
}

// The median time of a contribution from each machine and to each server, in nanoseconds per byte.
std::map<size_t, double> transferTimes(const JobHistory& history) {
  std::map<size_t, std::vector<double>> times;
  for (const TracedChunk& chunk : history.chunks()) {
    const ChunkPart* own = chunk.part(chunk.owner);
    for (const auto& [machine, part] : chunk.parts) {
      if (machine == chunk.owner || chunk.bytes == 0 || part.admitted == 0) continue;
      // A worker that owns the chunk takes contributions only after it has its own.
      const uint64_t from = std::max(part.admitted, own != nullptr ? own->admitted : 0);
      if (part.arrived <= from) continue;
      const double time = static_cast<double>(part.arrived - from) / static_cast<double>(chunk.bytes);
      times[machine].push_back(time);
      if (history.set().isServer(chunk.owner)) times[chunk.owner].push_back(time);
    }
  }
  std::map<size_t, double> medians;
  for (auto& [machine, all] : times) {
    const auto middle = all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2);
    std::nth_element(all.begin(), middle, all.end());
    medians[machine] = *middle;
  }
  return medians;
}

// A link that the critical path uses much more often than the links of other endpoints, and whose contributions take
// longer.
struct SlowLink {
  bool found = false;
  size_t endpoint = 0;
  double part = 0;      // of the time on the network
  uint64_t excess = 0;  // how much more time than the next endpoint it has on the path
};

SlowLink slowLinkOf(const JobHistory& history, const Totals& totals) {
  const auto network = totals.byKind.find(Kind::kNetwork);
  if (network == totals.byKind.end() || history.set().header().names.size() < 3) return {};
  uint64_t most = 0, second = 0;
  SlowLink slow;
  for (const auto& [endpoint, time] : totals.network) {
    if (time > most) {
      second = std::exchange(most, time);
      slow.endpoint = endpoint;
    } else {
      second = std::max(second, time);
    }
  }
  slow.part = part(most, network->second);
  const std::map<size_t, double> times = transferTimes(history);
  std::vector<double> others;
  for (const auto& [machine, time] : times)
    if (machine != slow.endpoint) others.push_back(time);
  if (others.empty() || !times.contains(slow.endpoint)) return slow;
  std::sort(others.begin(), others.end());
  slow.excess = most - second;
  slow.found = slow.part >= 0.5 && static_cast<double>(most) >= 1.4 * static_cast<double>(second) &&
               times.at(slow.endpoint) > kSlowRatio * others[others.size() / 2];
  return slow;
}

double secondsPerByte(const Rates& rates) {
  Result<Shares> shares = solveShares(rates);
  return shares.ok() ? std::move(shares).value().secondsPerByte : 0;
}

// The rates that the members know. Unknown rates count as the fastest known one.
Rates ratesOf(const trace::Header& header) {
  Rates rates;
  const double most = *std::max_element(header.rates.begin(), header.rates.end());
  for (size_t i = 0; i < header.rates.size(); ++i) {
    const double rate = header.rates[i] > 0 ? header.rates[i] : std::max(most, 1.0);
    (i < header.machines ? rates.workers : rates.servers).push_back(rate);
  }
  return rates;
}

// By which factor one more server, as fast as the fastest one or as the fastest worker, shortens the transfers.
double gainOfServer(const trace::Header& header) {
  Rates rates = ratesOf(header);
  const auto& fast = rates.servers.empty() ? rates.workers : rates.servers;
  const double rate = *std::max_element(fast.begin(), fast.end());
  const double without = secondsPerByte(rates);
  rates.servers.push_back(rate);
  const double with = secondsPerByte(rates);
  return with > 0 && without > 0 ? without / with : 1;
}

class Report {
 public:
  explicit Report(const JobHistory& history)
      : history_(history),
        set_(history.set()),
        path_(criticalPath(history)),
        totals_(totalsOf(path_)),
        slow_(slowLinkOf(history, totals_)) {}

  std::string text() {
    head();
    if (totals_.all == 0) return text_ + "no call has ended within the trace\n";
    text_ += fmt::format("where the time went, on the critical path of {}:\n", timeText(seconds(totals_.all)));
    shares();
    sizes();
    help();
    return text_;
  }

 private:
  void head() {
    size_t failed = 0, ended = 0;
    for (const auto& [number, call] : history_.calls()) {
      ended += call.lastFinished() > 0 ? 1 : 0;
      if (std::any_of(call.ranks.begin(), call.ranks.end(), [](const auto& on) { return on.second.failed; })) ++failed;
    }
    text_ += fmt::format("{} ranks on {} machines, {} servers, {} calls in {}", set_.header().ranks, set_.machines(),
                         set_.servers(), ended, timeText(seconds(set_.end)));
    if (failed > 0) text_ += fmt::format(", {} of them failed", failed);
    uint64_t uncertainty = 0;
    std::string unknown;
    for (const TracedProcess& process : set_.processes) {
      uncertainty = std::max(uncertainty, process.uncertainty);
      if (!process.clockKnown) unknown += (unknown.empty() ? "" : ", ") + process.name();
    }
    text_ += fmt::format("; clocks within {}\n", timeText(seconds(uncertainty)));
    if (!unknown.empty()) text_ += fmt::format("the clock of {} is not measured: it counts as rank 0's\n", unknown);
    missingFiles();
    if (set_.lost() > 0)
      text_ += fmt::format("{} older events did not fit into the memory of their processes\n", set_.lost());
  }

  void missingFiles() {
    std::vector<bool> there(set_.header().ranks + set_.servers());
    for (const TracedProcess& process : set_.processes) {
      const size_t index = process.server() ? process.file.header.endpoint - set_.machines() + set_.header().ranks
                                            : process.file.header.number;
      there[index] = true;
    }
    std::string missing;
    size_t count = 0;
    for (size_t i = 0; i < there.size(); ++i) {
      if (there[i] || ++count > 3) continue;
      missing += missing.empty() ? "" : ", ";
      missing += i < set_.header().ranks ? fmt::format("rank {}", i)
                                         : set_.endpointName(i - set_.header().ranks + set_.machines());
    }
    if (count > 3) missing += fmt::format(" and {} more", count - 3);
    if (count > 0) text_ += fmt::format("no file of {}: the causes of some times are unknown\n", missing);
  }

  void line(uint64_t time, const std::string& what) {
    if (part(time, totals_.all) < kLeastShare) return;
    lines_.emplace_back(
        time, fmt::format("{:6.1f} %  {:>9}  {}\n", 100 * part(time, totals_.all), timeText(seconds(time)), what));
  }

  void shares() {
    const auto of = [&](Kind kind) { return totals_.byKind.contains(kind) ? totals_.byKind.at(kind) : 0; };
    std::string network = "network";
    if (slow_.found)
      network += fmt::format(": {:.0f} % of it to and from {}, whose link is slower than others", 100 * slow_.part,
                             set_.endpointName(slow_.endpoint));
    line(of(Kind::kNetwork), network);
    // The two ranks that are most often last have lines of their own.
    std::vector<std::pair<uint64_t, size_t>> ranks;
    for (const auto& [rank, time] : totals_.waitForRank) ranks.emplace_back(time, rank);
    std::sort(ranks.rbegin(), ranks.rend());
    uint64_t rest = 0;
    for (size_t i = 0; i < ranks.size(); ++i)
      if (i < 2) line(ranks[i].first, fmt::format("waiting for rank {}", ranks[i].second));
      else rest += ranks[i].first;
    line(rest, "waiting for other ranks");
    uint64_t servers = 0, workers = 0, most = 0;
    size_t busiest = 0;
    for (const auto& [endpoint, time] : totals_.owner) {
      (set_.isServer(endpoint) ? servers : workers) += time;
      if (set_.isServer(endpoint) && time > most) std::tie(most, busiest) = std::pair(time, endpoint);
    }
    if (servers > 0) line(servers, fmt::format("waiting for a server, mostly {}", set_.endpointName(busiest)));
    line(workers, "waiting for a worker that sums");
    line(of(Kind::kSum), "sum");
    line(of(Kind::kCopy), "copies");
    line(of(Kind::kMachine), "other work of the ranks and of their threads");
    line(of(Kind::kProgram), "the program: no rank has made the next call");
    line(of(Kind::kUnknown), "unknown");
    std::stable_sort(lines_.begin(), lines_.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
    for (const auto& [time, text] : lines_) text_ += text;
  }

  struct Size {
    size_t calls = 0;
    uint64_t time = 0, least = UINT64_MAX;
    uint64_t path = 0, network = 0, waits = 0;  // on the critical path
  };

  void sizes() {
    std::map<uint64_t, Size> sizes;
    for (const auto& [number, call] : history_.calls()) {
      const uint64_t from = call.firstSubmitted(), until = call.lastFinished();
      if (from == 0 || until < from) continue;
      Size& size = sizes[call.bytes];
      ++size.calls;
      size.time += until - from;
      size.least = std::min(size.least, until - from);
    }
    for (const Segment& segment : path_) {
      if (segment.call == nullptr || segment.kind == Kind::kProgram) continue;
      Size& size = sizes[segment.call->bytes];
      size.path += segment.length();
      if (segment.kind == Kind::kNetwork) size.network += segment.length();
      if (segment.kind == Kind::kWaitForRank) size.waits += segment.length();
    }
    std::vector<std::pair<uint64_t, Size>> order(sizes.begin(), sizes.end());
    std::sort(order.begin(), order.end(), [](const auto& a, const auto& b) { return a.second.path > b.second.path; });
    text_ += "calls by size:\n";
    for (size_t i = 0; i < std::min(order.size(), kMostSizes); ++i) {
      const auto& [bytes, size] = order[i];
      if (size.calls == 0) continue;
      const double mean = seconds(size.time) / static_cast<double>(size.calls);
      text_ += fmt::format(
          "{:>10}  {} calls, mean {}, least {}, {:.4g} MB/s; network {:.0f} %, waiting for ranks {:.0f} %\n",
          bytesText(bytes), size.calls, timeText(mean), timeText(seconds(size.least)),
          size.path > 0 ? static_cast<double>(bytes * size.calls) / seconds(size.path) / 1e6 : 0,
          100 * part(size.network, size.path), 100 * part(size.waits, size.path));
    }
    if (order.size() > kMostSizes) text_ += fmt::format("            and {} more sizes\n", order.size() - kMostSizes);
  }

  // The whole time would be shorter by this factor if `saved` seconds of it were not needed.
  double gain(double saved) const { return seconds(totals_.all) / std::max(1e-9, seconds(totals_.all) - saved); }

  // If the members know that the link is slower, its gain follows from the plan. Otherwise the other links may be just
  // a little faster, and this is the most that it can be.
  double gainOfLink() const {
    Rates rates = ratesOf(set_.header());
    const size_t machines = set_.machines();
    double& rate = slow_.endpoint < machines ? rates.workers[slow_.endpoint] : rates.servers[slow_.endpoint - machines];
    const double fastest = *std::max_element(rates.workers.begin(), rates.workers.end());
    const double before = secondsPerByte(rates);
    if (rate >= fastest || before <= 0) return gain(seconds(slow_.excess));
    rate = fastest;
    return gain(seconds(totals_.onLanes) * (1 - secondsPerByte(rates) / before));
  }

  void help() {
    std::vector<std::pair<double, std::string>> ideas;
    for (const auto& [rank, time] : totals_.waitForRank)
      ideas.emplace_back(gain(seconds(time)), fmt::format("rank {} as early as the others", rank));
    if (slow_.found)
      ideas.emplace_back(gainOfLink(),
                         fmt::format("the link of {} as fast as the others", set_.endpointName(slow_.endpoint)));
    if (set_.machines() > 1) {
      const double shorter = gainOfServer(set_.header());
      ideas.emplace_back(gain(seconds(totals_.onLanes) * (1 - 1 / shorter)), "one more server");
    }
    if (totals_.byKind.contains(Kind::kSum))
      ideas.emplace_back(gain(seconds(totals_.byKind.at(Kind::kSum)) / 2), "sums twice as fast (BPS_REDUCE_THREADS)");
    std::erase_if(ideas, [](const auto& idea) { return idea.first < kLeastGain; });
    std::sort(ideas.rbegin(), ideas.rend());
    text_ += "what would help: ";
    if (ideas.empty()) text_ += fmt::format("nothing that this trace shows gains {:.0f} %", 100 * (kLeastGain - 1));
    for (size_t i = 0; i < std::min<size_t>(ideas.size(), 3); ++i)
      text_ += fmt::format("{}{}: {:.2f} x", i > 0 ? "; " : "", ideas[i].second, ideas[i].first);
    text_ += "\n";
  }

  const JobHistory& history_;
  const TraceSet& set_;
  const std::vector<Segment> path_;
  const Totals totals_;
  const SlowLink slow_;
  std::vector<std::pair<uint64_t, std::string>> lines_;
  std::string text_;
};

}  // namespace

std::string reportText(const JobHistory& history) { return Report(history).text(); }

}  // namespace bps::trace
