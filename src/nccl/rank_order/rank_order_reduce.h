// RankOrderReduce: the reduce-scatter of a local GPU group for sums that must be added in rank order. Every rank sends
// each owner its part with NCCL, which moves as many bytes as NCCL's reduce-scatter. Each owner then combines its own
// contribution and the received ones with the kernel of src/cuda/sum, in rank order and with one rounding.
//
//   caller's stream    sends and receives of slice 0, kernel, sends and receives of slice 1, kernel, ...
//
// The received contributions lie in GPU memory that is allocated when the group forms. Parts that do not fit are
// reduced in slices. Calls on different streams use the memory one after the other.
//
// Only the thread that issues the group's calls may call reduce().
#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "src/cuda/memory/gpu_memory.h"
#include "src/cuda/sum/sum_loader.h"
#include "src/nccl/call_pieces.h"

namespace bps::nccl {

class RankOrderReduce {
 public:
  // Calls its argument between ncclGroupStart and ncclGroupEnd.
  using NcclCalls = std::function<ncclResult_t(ncclComm_t localComm)>;
  using InNcclGroup = std::function<ncclResult_t(const NcclCalls& calls)>;

  // `places` has, for each rank of the group, the number of the group's ranks that are before it in the communicator.
  static Result<std::unique_ptr<RankOrderReduce>> create(const cuda::Device& device, int groupRank,
                                                         const std::vector<int>& places);
  // The memory stays allocated for later objects. No call may be in flight.
  ~RankOrderReduce() = default;

  // Combines the contributions to the piece. Each owner gets its part in the receive buffer of the call.
  ncclResult_t reduce(const Call& call, const Piece& piece, const InNcclGroup& inNcclGroup);
  // From now on the destructor leaves the memory to calls that may still be in flight.
  void keepMemory() { (void)received_.release(); }

 private:
  struct Slice {
    size_t begin, count;  // elements of each part
    size_t of(const OwnerPart& part) const { return part.count > begin ? std::min(count, part.count - begin) : 0; }
  };
  RankOrderReduce(const cuda::Device& device, const cuda::SumKernel& kernel, int groupRank, std::vector<int> places)
      : device_(device), kernel_(kernel), groupRank_(groupRank), places_(std::move(places)) {}
  size_t strideBytes() const { return received_->size() / (places_.size() - 1) / kAlignment * kAlignment; }
  ncclResult_t exchange(const Call& call, const Piece& piece, const Slice& slice, ncclComm_t localComm) const;
  Status combine(const Call& call, const OwnerPart& part, const Slice& slice) const;

  static constexpr size_t kAlignment = 256;
  const cuda::Device& device_;
  const cuda::SumKernel& kernel_;
  const int groupRank_;
  const std::vector<int> places_;
  std::unique_ptr<cuda::GpuMemory> received_;
  std::unique_ptr<cuda::OwnedStream> order_;  // idle when no call uses received_
};

}  // namespace bps::nccl
