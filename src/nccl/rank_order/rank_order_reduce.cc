#include "src/nccl/rank_order/rank_order_reduce.h"

#include <algorithm>

#include "src/base/log.h"
#include "src/cuda/stream_order.h"
#include "src/nccl/real_nccl.h"

namespace bps::nccl {
namespace {

// Large enough that the sends of 8 GPUs use the whole rate of their links.
constexpr size_t kReceivedBytes = 32U << 20;

}  // namespace

Result<std::unique_ptr<RankOrderReduce>> RankOrderReduce::create(const cuda::Device& device, int groupRank,
                                                                 const std::vector<int>& places) {
  const cuda::SumKernel* kernel = BPS_TRY(cuda::SumKernel::load(device));
  std::unique_ptr<RankOrderReduce> made(new RankOrderReduce(device, *kernel, groupRank, places));
  made->received_ = BPS_TRY(cuda::GpuMemory::create(device, kReceivedBytes));
  made->order_ = BPS_TRY(cuda::OwnedStream::create(device, cuda::OwnedStream::Use::kWaits));
  return made;
}

ncclResult_t RankOrderReduce::reduce(const Call& call, const Piece& piece, const InNcclGroup& inNcclGroup) {
  ncclResult_t done = logAndConvert(cuda::orderAfter(device_, call.stream, order_->get()));
  const auto me = static_cast<size_t>(groupRank_);
  const bool owns = me < piece.parts.size();
  size_t longest = 0;
  for (const OwnerPart& part : piece.parts) longest = std::max(longest, part.count);
  Slice slice{0, strideBytes() / call.elementBytes()};
  for (; slice.begin < longest && done == ncclSuccess; slice.begin += slice.count) {
    done = inNcclGroup([&](ncclComm_t localComm) { return exchange(call, piece, slice, localComm); });
    if (done == ncclSuccess && owns && slice.of(piece.parts[me]) > 0)
      done = logAndConvert(combine(call, piece.parts[me], slice));
  }
  const ncclResult_t followed = logAndConvert(cuda::orderAfter(device_, order_->get(), call.stream));
  return done == ncclSuccess ? followed : done;
}

ncclResult_t RankOrderReduce::exchange(const Call& call, const Piece& piece, const Slice& slice,
                                       ncclComm_t localComm) const {
  ncclResult_t done = ncclSuccess;
  const auto me = static_cast<size_t>(groupRank_);
  for (size_t owner = 0; owner < piece.parts.size() && done == ncclSuccess; ++owner) {
    const OwnerPart& part = piece.parts[owner];
    if (owner == me || slice.of(part) == 0) continue;
    done = BPS_REAL(ncclSend, call.at(call.send, part.offset + slice.begin), slice.of(part), call.movedType(),
                    static_cast<int>(owner), localComm, call.stream);
  }
  if (me >= piece.parts.size()) return done;
  const size_t mine = slice.of(piece.parts[me]);
  for (size_t rank = 0; rank < places_.size() && mine > 0 && done == ncclSuccess; ++rank) {
    if (rank == me) continue;
    const auto before = static_cast<size_t>(places_[rank] < places_[me] ? places_[rank] : places_[rank] - 1);
    done = BPS_REAL(ncclRecv, received_->data() + before * strideBytes(), mine, call.movedType(),
                    static_cast<int>(rank), localComm, call.stream);
  }
  return done;
}

Status RankOrderReduce::combine(const Call& call, const OwnerPart& part, const Slice& slice) const {
  const size_t offset = part.offset + slice.begin;
  cuda::SumArguments sum{};
  sum.target = call.at(call.recv, offset);
  sum.own = call.at(call.send, offset);
  sum.received = received_->data();
  sum.strideBytes = strideBytes();
  sum.count = slice.of(part);
  sum.ranks = static_cast<uint32_t>(places_.size());
  sum.place = static_cast<uint32_t>(places_[static_cast<size_t>(groupRank_)]);
  sum.type = static_cast<uint32_t>(call.type);
  sum.op = static_cast<uint32_t>(call.op);
  return kernel_.launch(sum, call.stream);
}

}  // namespace bps::nccl
