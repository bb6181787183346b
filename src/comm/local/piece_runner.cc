#include "src/comm/local/piece_runner.h"

#include <cstring>

namespace bps {

void PieceRunner::run(const Piece& piece, const ChunkView& own, uint64_t number) {
  const uint64_t at = piece.part.begin, bytes = piece.part.size();
  uint8_t* target = (piece.target == Piece::Target::kResult    ? own.target
                     : piece.target == Piece::Target::kSumArea ? ring_.sum(number)
                                                               : ring_.area(number, self_)) +
                    at;
  if (piece.sources.size() == 1 && !piece.completes) {
    std::memcpy(target, locate(piece.sources[0], own.source, number) + at, bytes);
    return;
  }
  contributions_.clear();
  for (const Source& source : piece.sources) {
    CallInfo info = own.call;
    const bool summed = source.contributor == Source::kPartialSum;
    if (summed) info.hasScalar = false;  // the scalars are already applied
    else info.scalar = ring_.chunkInfo(number, static_cast<uint32_t>(source.contributor)).call.scalar;
    contributions_.push_back({info, locate(source, own.source, number) + at, bytes, summed});
  }
  (piece.completes ? machineSum_ : partSum_).run(contributions_, target);
}

const uint8_t* PieceRunner::locate(const Source& source, const uint8_t* own, uint64_t number) const {
  if (source.area == Source::kOwn) return own;
  return source.area == Source::kSumArea ? ring_.sum(number) : ring_.area(number, source.area);
}

Status PieceRunner::checkCalls(uint64_t number, const std::function<std::string(size_t)>& nameOf) {
  contributions_.clear();
  // Prefetch the data of a small chunk from other CPUs' caches while its ChunkInfo is read.
  for (uint32_t rank = 0; rank < ring_.shape().ranks; ++rank) __builtin_prefetch(ring_.area(number, rank));
  for (uint32_t rank = 0; rank < ring_.shape().ranks; ++rank) {
    const ChunkInfo& chunkInfo = ring_.chunkInfo(number, rank);
    contributions_.push_back({chunkInfo.call, nullptr, chunkInfo.bytes});
  }
  return checkRound(contributions_, nameOf);
}

}  // namespace bps
