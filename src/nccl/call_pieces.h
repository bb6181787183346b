// Rules of local GPU groups: which calls they carry, and how they cut a call. A call is cut into
// pieces, and each piece has one part for each owner. An owner here is a rank of the group that
// all-reduces its part with bps.
//
// All results depend only on the call and on numbers that all ranks know, so they are the same on
// all ranks. Any thread may call these functions.
#pragma once
#include <algorithm>
#include <vector>

#include "src/nccl/call.h"

namespace bps::nccl {

// For smaller calls, NCCL's kernel launches take longer than copies of the whole buffer.
inline constexpr size_t kMinGroupBytes = 256U << 10;
inline constexpr size_t kMaxPieces = 8, kMinPieceBytes = 4U << 20;

// The orders of summation that the groups of a communicator allow. All ranks have the same OrderRules.
struct OrderRules {
  bool allowsAnyOrder = false;   // BPS_NCCL_LOCAL=any
  bool hasOnlyPairs = true;      // no group has more than two ranks
  bool addsInRankOrder = false;  // every rank has the kernel that adds in rank order
};

// A Combiner combines the contributions to a call inside the group. The kernel (src/cuda/sum) adds in rank order.
enum class Combiner { kNone, kNccl, kRankOrder };

inline Combiner combinerOf(const Call& call, const OrderRules& rules) {
  // Averages and operations made by the user scale each value once. A sum in two steps would scale
  // each value twice.
  if (call.op >= ncclAvg || call.bytes() < kMinGroupBytes) return Combiner::kNone;
  // Integers have the same result in any order. The sum of two values is the same in either order, except for the
  // payload of NaNs. The minimum and the maximum of NaNs depend on the order.
  if (call.type < ncclFloat16) return Combiner::kNccl;
  const bool isAnyOrderRight = rules.allowsAnyOrder || (rules.hasOnlyPairs && call.op == ncclSum);
  if (isAnyOrderRight && call.type < ncclFloat8e4m3) return Combiner::kNccl;
  return rules.addsInRankOrder ? Combiner::kRankOrder : Combiner::kNone;
}

struct OwnerPart {
  size_t offset, count;  // elements
};

struct Piece {
  size_t offset, count;  // elements
  std::vector<OwnerPart> parts;
  bool hasEqualParts;  // every rank of the group owns a part, and all parts have the same size
};

inline std::vector<Piece> cutCall(const Call& call, int ownersOfGroup, int ranksOfGroup) {
  const auto owners = static_cast<size_t>(ownersOfGroup);
  const size_t pieces = std::clamp<size_t>(call.bytes() / kMinPieceBytes, 1, kMaxPieces);
  const size_t most = (call.count / pieces / owners + 1) * owners;
  std::vector<Piece> cut;
  for (size_t offset = 0; offset < call.count; offset += cut.back().count) {
    Piece piece{offset, std::min(most, call.count - offset), {}, false};
    for (size_t owner = 0; owner < owners; ++owner) {
      const size_t begin = piece.count * owner / owners, end = piece.count * (owner + 1) / owners;
      piece.parts.push_back({offset + begin, end - begin});
    }
    piece.hasEqualParts = piece.count % owners == 0 && ownersOfGroup == ranksOfGroup;
    cut.push_back(std::move(piece));
  }
  return cut;
}

}  // namespace bps::nccl
