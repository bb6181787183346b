// StepBuilder collects the copies and pieces of one rank's steps. Each strategy derives a class
// from StepBuilder, whose objects exist only while they build the steps.
#pragma once
#include <algorithm>
#include <utility>
#include <vector>

#include "topo/plan/program.h"

namespace bps {

// Returns the ranges between each offset and the next offset.
std::vector<ByteRange> rangesOf(const std::vector<uint64_t>& offsets);
std::vector<ByteRange> splitEvenly(const ByteRange& whole, uint64_t unit, size_t parts);
ByteRange overlap(const ByteRange& a, const ByteRange& b);
// True if the rank's buffer is in host memory.
bool inHostMemory(const LocalPlan& plan, size_t rank);

class StepBuilder {
 public:
  StepBuilder(const LocalProgram& program, size_t rank, uint64_t bytes, uint64_t unit)
      : program_(program),
        plan_(program.plan()),
        rank_(rank),
        whole_{0, bytes},
        unit_(unit),
        parts_(rangesOf(cutByAssignment(bytes, unit, plan_.assignments))),
        steps_(program.stages()) {}

 protected:
  using Target = Piece::Target;

  size_t ranks() const { return program_.ranks(); }
  size_t last() const { return steps_.size() - 1; }
  NodeId location(size_t rank) const { return plan_.placement.ranks[rank].location; }
  NodeId numa(size_t rank) const { return plan_.placement.ranks[rank].numa; }

  void copy(size_t stage, Copy copy) {
    if (copy.bytes > 0) steps_[stage].copies.push_back(copy);
  }
  void addPeerCopy(size_t stage, size_t from, size_t to, const ByteRange& part) {
    copy(stage, {CopyKind::kPeer, location(from), location(to), part.size()});
  }
  void copyToHost(size_t stage, NodeId to, const ByteRange& part) {
    if (plan_.staged) copy(stage, {CopyKind::kStaging, location(rank_), to, part.size()});
  }
  void copyFromHost(NodeId from, const ByteRange& part) {
    if (plan_.staged) copy(last(), {CopyKind::kStaging, from, location(rank_), part.size()});
  }

  // Adds a piece, or extends the previous piece if the two are contiguous and otherwise equal.
  void piece(size_t stage, Piece piece) {
    if (piece.part.size() == 0) return;
    std::vector<Piece>& pieces = steps_[stage].pieces;
    if (!pieces.empty() && pieces.back().part.end == piece.part.begin && pieces.back().sources == piece.sources &&
        pieces.back().target == piece.target && pieces.back().completes == piece.completes)
      pieces.back().part.end = piece.part.end;
    else pieces.push_back(std::move(piece));
  }
  void putContribution(const ByteRange& part) { piece(0, {part, {own()}, Target::kOwnArea}); }
  void takeSum() { piece(last(), {whole_, {{Source::kSumArea, Source::kPartialSum}}, Target::kResult}); }

  Source own() const { return {Source::kOwn, rank_}; }
  // Returns the source of the contribution of `rank`, which may be this rank.
  Source from(size_t rank) const { return rank == rank_ ? own() : Source{rank, rank}; }
  std::vector<Source> sourcesOf(const std::vector<size_t>& ranks) const {
    std::vector<Source> sources(ranks.size());
    std::transform(ranks.begin(), ranks.end(), sources.begin(), [this](size_t rank) { return from(rank); });
    return sources;
  }
  std::vector<Source> allSources() const {
    std::vector<Source> sources;
    for (size_t rank = 0; rank < ranks(); ++rank) sources.push_back(from(rank));
    return sources;
  }

  const LocalProgram& program_;
  const LocalPlan& plan_;
  const size_t rank_;
  const ByteRange whole_;
  const uint64_t unit_;
  const std::vector<ByteRange> parts_;  // by assignment
  std::vector<Step> steps_;
};

}  // namespace bps
