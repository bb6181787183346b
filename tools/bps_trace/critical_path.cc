#include "tools/bps_trace/critical_path.h"

#include <algorithm>
#include <optional>

namespace bps::trace {
namespace {

using Kind = Segment::Kind;

// A stage on the path. `place` is a rank for the stages of a call, and a machine for those of a chunk.
struct Node {
  enum class Stage { kFinished, kAdmitted, kSubmitted, kRetired, kReceived, kSummed, kSumBegun, kArrived, kSent };
  Stage stage = Stage::kFinished;
  const TracedCall* call = nullptr;
  const TracedChunk* chunk = nullptr;
  size_t place = 0;
  uint64_t time = 0;
};

template <class T>
struct TimedList {
  std::vector<std::pair<uint64_t, const T*>> items;

  void sort() { std::sort(items.begin(), items.end()); }
  // The last item before `time`, or null.
  const std::pair<uint64_t, const T*>* before(uint64_t time) const {
    const auto after = std::lower_bound(items.begin(), items.end(), std::pair<uint64_t, const T*>(time, nullptr));
    return after == items.begin() ? nullptr : &*(after - 1);
  }
};

class Walk {
 public:
  explicit Walk(const JobHistory& history) : history_(history) {
    for (const TracedChunk& chunk : history.chunks())
      for (const auto& [machine, part] : chunk.parts)
        if (part.retired > 0) retired_[machine].items.emplace_back(part.retired, &chunk);
    for (const auto& [number, call] : history.calls())
      for (const auto& [rank, on] : call.ranks)
        if (on.finished > 0) finished_[rank].items.emplace_back(on.finished, &call);
    for (auto& [machine, list] : retired_) list.sort();
    for (auto& [rank, list] : finished_) list.sort();
  }

  std::vector<Segment> run() {
    std::optional<Node> node = lastFinish();
    if (!node) return {};
    now_ = node->time;
    // Files that contradict each other could lead round in a circle.
    const size_t most = 8 * (history_.chunks().size() + history_.calls().size()) + 64;
    for (size_t steps = 0; node && steps < most; ++steps) node = step(*node);
    std::reverse(path_.begin(), path_.end());
    return std::move(path_);
  }

 private:
  std::optional<Node> lastFinish() const {
    std::optional<Node> last;
    for (const auto& [rank, list] : finished_) {
      const auto& [time, call] = list.items.back();
      if (!last || time > last->time) last = Node{Node::Stage::kFinished, call, nullptr, rank, time};
    }
    return last;
  }

  std::optional<Node> step(const Node& node) {
    switch (node.stage) {
      case Node::Stage::kFinished:
        return beforeFinish(node);
      case Node::Stage::kAdmitted:
        return beforeAdmission(node);
      case Node::Stage::kSubmitted:
        return beforeSubmission(node);
      case Node::Stage::kRetired:
        return beforeRetirement(node);
      case Node::Stage::kReceived:
        return beforeReceipt(node);
      case Node::Stage::kSummed:
        return beforeSummed(node);
      case Node::Stage::kSumBegun:
        return beforeSum(node);
      case Node::Stage::kArrived:
        return beforeArrival(node);
      case Node::Stage::kSent:
        return beforeSending(node);
    }
    return {};
  }

  // Adds the segment from `cause` to the stage before, and continues at the cause.
  Node go(Segment segment, const Node& cause) {
    segment.from = std::min(cause.time, now_);
    segment.until = now_;
    segment.call = cause.call;
    if (cause.chunk != nullptr) segment.onExchangePath = cause.chunk->usesExchangePath();
    if (segment.length() > 0) path_.push_back(segment);
    now_ = segment.from;
    return cause;
  }
  static Segment segment(Kind kind, size_t at, size_t to = 0) { return {kind, 0, 0, at, to, nullptr, false}; }
  static Node chunkNode(Node::Stage stage, const TracedChunk& chunk, size_t machine, uint64_t time) {
    return {stage, chunk.call, &chunk, machine, time};
  }
  Node rankNode(Node::Stage stage, const TracedCall& call, uint32_t rank, uint64_t time) const {
    return {stage, &call, nullptr, rank, time};
  }

  // If no file has the cause, the path goes on where the call was made last.
  std::optional<Node> causeUnknown(const Node& node) { return fromLastSubmission(*node.call, Kind::kUnknown, 0); }
  std::optional<Node> fromLastSubmission(const TracedCall& call, Kind kind, size_t at) {
    std::optional<Node> last;
    for (const auto& [rank, on] : call.ranks)
      if (on.submitted > 0 && (!last || on.submitted > last->time))
        last = rankNode(Node::Stage::kSubmitted, call, rank, on.submitted);
    if (!last) return {};
    return go(segment(kind, at), *last);
  }

  std::optional<Node> beforeFinish(const Node& node) {
    const size_t machine = history_.machineOf(static_cast<uint32_t>(node.place));
    const TracedChunk* last = nullptr;
    uint64_t time = 0;
    for (const TracedChunk* chunk : node.call->chunks) {
      const ChunkPart* part = chunk->part(machine);
      if (part == nullptr || part->retired == 0 || part->retired > node.time || part->retired < time) continue;
      time = part->retired;
      last = chunk;
    }
    if (last == nullptr) return fromLastSubmission(*node.call, Kind::kMachine, machine);
    return go(segment(Kind::kMachine, machine), chunkNode(Node::Stage::kRetired, *last, machine, time));
  }

  std::optional<Node> beforeRetirement(const Node& node) {
    const TracedChunk& chunk = *node.chunk;
    const ChunkPart& part = *chunk.part(node.place);
    const uint64_t summed = chunk.usesExchangePath() ? part.summed : chunk.summed;
    if (chunk.usesExchangePath() || chunk.owner == node.place) {
      if (summed == 0) return causeUnknown(node);
      return go(segment(Kind::kNetwork, node.place, node.place),
                chunkNode(Node::Stage::kSummed, chunk, node.place, summed));
    }
    if (part.received == 0) return causeUnknown(node);
    return go(segment(Kind::kCopy, node.place), chunkNode(Node::Stage::kReceived, chunk, node.place, part.received));
  }

  std::optional<Node> beforeReceipt(const Node& node) {
    const TracedChunk& chunk = *node.chunk;
    const ChunkPart& part = *chunk.part(node.place);
    const Segment network = segment(Kind::kNetwork, node.place, chunk.owner);
    if (chunk.summed > 0) return go(network, chunkNode(Node::Stage::kSummed, chunk, node.place, chunk.summed));
    if (part.admitted > 0) return go(network, chunkNode(Node::Stage::kSent, chunk, node.place, part.admitted));
    return causeUnknown(node);
  }

  std::optional<Node> beforeSummed(const Node& node) {
    const TracedChunk& chunk = *node.chunk;
    const bool exchange = chunk.usesExchangePath();
    const uint64_t begun = exchange ? chunk.part(node.place)->sumBegun : chunk.sumBegun;
    if (begun == 0) return causeUnknown(node);
    return go(segment(Kind::kSum, exchange ? node.place : chunk.owner),
              chunkNode(Node::Stage::kSumBegun, chunk, node.place, begun));
  }

  // On the exchange path every machine waits for the one that has sent last.
  std::optional<Node> beforeSum(const Node& node) {
    const TracedChunk& chunk = *node.chunk;
    const bool exchange = chunk.usesExchangePath();
    size_t machine = 0;
    uint64_t time = 0;
    for (const auto& [each, part] : chunk.parts) {
      const uint64_t at = exchange ? part.admitted : part.arrived;
      if (at > time) std::tie(machine, time) = std::pair(size_t{each}, at);
    }
    if (time == 0) return causeUnknown(node);
    if (exchange)
      return go(segment(Kind::kNetwork, node.place, machine), chunkNode(Node::Stage::kSent, chunk, machine, time));
    return go(segment(Kind::kOwner, chunk.owner), chunkNode(Node::Stage::kArrived, chunk, machine, time));
  }

  // A worker that owns the chunk takes contributions only after it has its own.
  std::optional<Node> beforeArrival(const Node& node) {
    const TracedChunk& chunk = *node.chunk;
    const uint64_t sent = chunk.part(node.place)->admitted;
    const ChunkPart* own = chunk.part(chunk.owner);
    const uint64_t ownSent = own != nullptr ? own->admitted : 0;
    if (sent == 0) return causeUnknown(node);
    const Segment network = segment(Kind::kNetwork, node.place, chunk.owner);
    if (ownSent > sent) return go(network, chunkNode(Node::Stage::kSent, chunk, chunk.owner, ownSent));
    return go(network, chunkNode(Node::Stage::kSent, chunk, node.place, sent));
  }

  // A chunk is sent when the last rank of its machine has made the call, or when another chunk has left the window.
  std::optional<Node> beforeSending(const Node& node) {
    const TracedCall& call = *node.call;
    std::optional<Node> cause;
    uint64_t copied = 0;
    for (const uint32_t rank : history_.ranksOf(node.place)) {
      const auto on = call.ranks.find(rank);
      if (on == call.ranks.end() || on->second.admitted == 0) continue;
      copied = std::max(copied, on->second.copiedOut <= node.time ? on->second.copiedOut : 0);
      if (!cause || on->second.admitted > cause->time)
        cause = rankNode(Node::Stage::kAdmitted, call, rank, on->second.admitted);
    }
    const auto list = retired_.find(node.place);
    const auto* before = list == retired_.end() ? nullptr : list->second.before(node.time);
    if (before != nullptr && (!cause || before->first > std::max(cause->time, copied)))
      return go(segment(Kind::kMachine, node.place),
                chunkNode(Node::Stage::kRetired, *before->second, node.place, before->first));
    if (!cause) return causeUnknown(node);
    if (copied > cause->time) {
      Node copyEnd = *cause;
      copyEnd.time = copied;
      go(segment(Kind::kMachine, node.place), copyEnd);
      return go(segment(Kind::kCopy, node.place), *cause);
    }
    return go(segment(Kind::kMachine, node.place), *cause);
  }

  std::optional<Node> beforeAdmission(const Node& node) {
    const auto rank = static_cast<uint32_t>(node.place);
    const Segment machine = segment(Kind::kMachine, history_.machineOf(rank));
    const uint64_t submitted = node.call->ranks.at(rank).submitted;
    const auto* before = finishedBefore(rank, node.time);
    if (before != nullptr && before->first > submitted)
      return go(machine, rankNode(Node::Stage::kFinished, *before->second, rank, before->first));
    if (submitted == 0) return {};
    return go(machine, rankNode(Node::Stage::kSubmitted, *node.call, rank, submitted));
  }

  std::optional<Node> beforeSubmission(const Node& node) {
    const auto rank = static_cast<uint32_t>(node.place);
    uint64_t othersFrom = node.time;
    for (const auto& [other, on] : node.call->ranks)
      if (other != rank && on.submitted > 0) othersFrom = std::min(othersFrom, on.submitted);
    const auto* before = finishedBefore(rank, node.time);
    Node waitBegins = node;
    waitBegins.time = before != nullptr ? std::max(othersFrom, before->first) : othersFrom;
    go(segment(Kind::kWaitForRank, rank), waitBegins);
    if (before == nullptr) return {};
    return go(segment(Kind::kProgram, rank), rankNode(Node::Stage::kFinished, *before->second, rank, before->first));
  }

  const std::pair<uint64_t, const TracedCall*>* finishedBefore(uint32_t rank, uint64_t time) const {
    const auto list = finished_.find(rank);
    return list == finished_.end() ? nullptr : list->second.before(time);
  }

  const JobHistory& history_;
  std::map<size_t, TimedList<TracedChunk>> retired_;    // by machine
  std::map<uint32_t, TimedList<TracedCall>> finished_;  // by rank
  std::vector<Segment> path_;
  uint64_t now_ = 0;
};

}  // namespace

std::vector<Segment> criticalPath(const JobHistory& history) { return Walk(history).run(); }

}  // namespace bps::trace
