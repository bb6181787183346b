#include "tools/bps_trace/timeline.h"

#include <algorithm>
#include <optional>

#include "src/base/format.h"

namespace bps::trace {
namespace {

class Builder {
 public:
  explicit Builder(const JobHistory& history) : history_(history), set_(history.set()) {}

  Timeline build() {
    for (const TracedProcess& process : set_.processes) {
      const trace::Header& header = process.file.header;
      TimelineProcess& made = timeline_.processes.emplace_back();
      made.name = fmt::format("{} ({}, pid {})", process.name(), header.host, header.pid);
    }
    for (size_t p = 0; p < set_.processes.size(); ++p)
      if (!set_.processes[p].server()) addCalls(p);
    for (const auto& [owner, chunks] : chunksByLane()) addLane(chunks);
    return std::move(timeline_);
  }

 private:
  // The chunks of each lane in the order of their sequence numbers.
  std::map<std::pair<uint16_t, uint8_t>, std::vector<const TracedChunk*>> chunksByLane() const {
    std::map<std::pair<uint16_t, uint8_t>, std::vector<const TracedChunk*>> lanes;
    for (const TracedChunk& chunk : history_.chunks()) lanes[{chunk.owner, chunk.rail}].push_back(&chunk);
    for (auto& [lane, chunks] : lanes)
      std::sort(chunks.begin(), chunks.end(),
                [](const TracedChunk* a, const TracedChunk* b) { return a->sequence < b->sequence; });
    return lanes;
  }

  size_t track(size_t process, const std::string& name) {
    std::vector<Track>& tracks = timeline_.processes[process].tracks;
    const auto found = std::find_if(tracks.begin(), tracks.end(), [&](const Track& t) { return t.name == name; });
    if (found != tracks.end()) return static_cast<size_t>(found - tracks.begin());
    tracks.push_back({name, {}});
    return tracks.size() - 1;
  }

  // Adds a slice after the last one of the track. Returns its begin, or nothing if no time is left for it.
  std::optional<ArrowEnd> add(size_t process, const std::string& trackName, Slice slice) {
    if (slice.from == 0 || slice.until == 0) return {};
    const size_t number = track(process, trackName);
    std::vector<Slice>& slices = timeline_.processes[process].tracks[number].slices;
    if (!slices.empty()) slice.from = std::max(slice.from, slices.back().until);
    if (slice.until <= slice.from) return {};
    slices.push_back(std::move(slice));
    return ArrowEnd{process, number, slices.back().from};
  }

  // Calls that overlap are on different tracks.
  void addCalls(size_t process) {
    const uint32_t rank = set_.processes[process].file.header.number;
    std::vector<uint64_t> ends;
    for (const auto& [number, call] : history_.calls()) {
      const auto on = call.ranks.find(rank);
      if (on == call.ranks.end() || on->second.submitted == 0) continue;
      const uint64_t from = on->second.submitted;
      const uint64_t until = on->second.finished > 0 ? on->second.finished : set_.end;
      size_t row = 0;
      while (row < ends.size() && ends[row] > from) ++row;
      if (row == ends.size()) ends.push_back(0);
      ends[row] = until;
      const std::string what = on->second.failed ? "failed call" : on->second.finished > 0 ? "call" : "unfinished call";
      add(process, row == 0 ? "calls" : fmt::format("calls {}", row + 1),
          {from, until, Slice::Kind::kCall, fmt::format("{} {}", what, number), number, call.bytes});
      if (on->second.copiedOut > 0)
        add(process, "copies from the device",
            {on->second.admitted, on->second.copiedOut, Slice::Kind::kCopy, "copy", number, call.bytes});
    }
  }

  // The process that records the chunks of this machine on this rail.
  std::optional<size_t> processOf(size_t endpoint, uint8_t rail) const {
    std::optional<size_t> first;
    for (size_t p = 0; p < set_.processes.size(); ++p) {
      if (set_.processes[p].file.header.endpoint != endpoint) continue;
      const auto& events = set_.processes[p].file.events;
      const bool has = std::any_of(events.begin(), events.end(), [&](const trace::Event& event) {
        return event.stage >= trace::Stage::kChunkAdmitted && event.rail == rail;
      });
      if (has) return p;
      if (!first) first = p;
    }
    return first;
  }

  void addLane(const std::vector<const TracedChunk*>& chunks) {
    const TracedChunk& any = *chunks.front();
    std::map<size_t, std::optional<size_t>> machines;
    for (size_t m = 0; m < set_.machines(); ++m) machines[m] = processOf(m, any.rail);
    const std::optional<size_t> owner = any.usesExchangePath() ? std::nullopt : processOf(any.owner, any.rail);
    for (const TracedChunk* chunk : chunks)
      if (chunk->usesExchangePath()) addExchange(*chunk, machines);
      else addChunk(*chunk, machines, owner);
    for (const auto& [machine, process] : machines)
      if (process) addInFlight(*process, machine, chunks);
  }

  static Slice sliceOf(const TracedChunk& chunk, Slice::Kind kind, std::string name) {
    return {0, 0, kind, std::move(name), chunk.call->number, chunk.bytes};
  }

  void addChunk(const TracedChunk& chunk, const std::map<size_t, std::optional<size_t>>& machines,
                std::optional<size_t> owner) {
    const std::string rail = chunk.rail > 0 ? fmt::format(", rail {}", chunk.rail) : "";
    const std::string name = set_.endpointName(chunk.owner) + rail;
    std::optional<ArrowEnd> sum;
    if (owner) sum = addSum(chunk, *owner, rail);
    for (const auto& [machine, part] : chunk.parts) {
      const auto found = machines.find(machine);
      if (found == machines.end() || !found->second || machine == chunk.owner) continue;
      const size_t process = *found->second;
      Slice push = sliceOf(chunk, Slice::Kind::kPush, "push");
      push.from = part.admitted;
      push.until = part.pushed;
      const auto pushed = add(process, "push to " + name, push);
      Slice answer = sliceOf(chunk, Slice::Kind::kAnswer, "answer");
      answer.from = chunk.summed > 0 ? chunk.summed : part.pushed;
      answer.until = part.received;
      const auto received = add(process, "answer from " + name, answer);
      Slice copy = sliceOf(chunk, Slice::Kind::kCopy, "copy");
      copy.from = part.received;
      copy.until = part.retired;
      add(process, "answer from " + name, copy);
      if (pushed && sum) timeline_.arrows.push_back({*pushed, *sum});
      if (sum && received) timeline_.arrows.push_back({*sum, *received});
    }
  }

  // The wait for the last contribution, and the sum.
  std::optional<ArrowEnd> addSum(const TracedChunk& chunk, size_t owner, const std::string& rail) {
    uint64_t first = UINT64_MAX, last = 0;
    size_t machine = 0;
    for (const auto& [each, part] : chunk.parts) {
      if (part.arrived == 0) continue;
      first = std::min(first, part.arrived);
      if (part.arrived > last) std::tie(last, machine) = std::pair(part.arrived, size_t{each});
    }
    const std::string name = "sum" + rail;
    if (last > 0) {
      Slice wait = sliceOf(chunk, Slice::Kind::kWait, "waits for " + set_.endpointName(machine));
      wait.from = first;
      wait.until = last;
      add(owner, name, wait);
    }
    Slice sum = sliceOf(chunk, Slice::Kind::kSum, "sum");
    sum.from = chunk.sumBegun;
    sum.until = chunk.summed;
    const auto added = add(owner, name, sum);
    for (const auto& [each, part] : chunk.parts) {
      Slice answer = sliceOf(chunk, Slice::Kind::kAnswer, "answer");
      answer.from = chunk.summed;
      answer.until = part.answered;
      add(owner, "answer to " + set_.endpointName(each) + rail, answer);
    }
    return added;
  }

  // The machine that was the last to send its contribution is the one that all others wait for.
  void addExchange(const TracedChunk& chunk, const std::map<size_t, std::optional<size_t>>& machines) {
    size_t last = 0;
    uint64_t lastTime = 0;
    for (const auto& [machine, part] : chunk.parts)
      if (part.admitted > lastTime) std::tie(lastTime, last) = std::pair(part.admitted, size_t{machine});
    for (const auto& [machine, part] : chunk.parts) {
      const auto found = machines.find(machine);
      if (found == machines.end() || !found->second) continue;
      Slice wait = sliceOf(chunk, Slice::Kind::kWait, "waits for " + set_.endpointName(last));
      wait.from = part.admitted;
      wait.until = std::min(lastTime, part.sumBegun);
      if (machine != last) add(*found->second, "exchange path", wait);
      Slice exchange = sliceOf(chunk, Slice::Kind::kExchange, "exchange");
      exchange.from = std::max(part.admitted, std::min(lastTime, part.sumBegun));
      exchange.until = part.sumBegun;
      add(*found->second, "exchange path", exchange);
      Slice sum = sliceOf(chunk, Slice::Kind::kSum, "sum");
      sum.from = part.sumBegun;
      sum.until = part.summed;
      add(*found->second, "exchange path", sum);
    }
  }

  void addInFlight(size_t process, size_t machine, const std::vector<const TracedChunk*>& chunks) {
    auto& counts = timeline_.processes[process].inFlight;
    for (const TracedChunk* chunk : chunks) {
      const ChunkPart* part = chunk->part(machine);
      if (part == nullptr || part->admitted == 0 || part->retired == 0) continue;
      counts.emplace_back(part->admitted, 1);
      counts.emplace_back(part->retired, -1);
    }
  }

  const JobHistory& history_;
  const TraceSet& set_;
  Timeline timeline_;
};

}  // namespace

Timeline makeTimeline(const JobHistory& history) {
  Timeline timeline = Builder(history).build();
  for (TimelineProcess& process : timeline.processes) {  // from changes to numbers
    std::sort(process.inFlight.begin(), process.inFlight.end());
    int now = 0;
    for (auto& [time, change] : process.inFlight) change = now += change;
  }
  return timeline;
}

}  // namespace bps::trace
