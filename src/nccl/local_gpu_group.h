// LocalGpuGroup: GPUs of one machine, or of one PCIe switch, whose buffers NCCL combines. bps
// all-reduces between the groups. A call is cut into pieces, and each piece has one part for each
// owner (call_pieces.h). An owner here is a rank of the group that all-reduces its part with bps.
//
//   caller's stream      reduce-scatter 0, 1, 2 ...              all-gather 0, 1, 2 ...
//   streams of bps           piece 0: bps all-reduces the owner's part
//                               piece 1: ...
//
// If the result must not depend on the order of NCCL, rank_order_reduce.h replaces reduce-scatter.
// The first pieces are therefore on the network while NCCL still reduces the next pieces. The parts
// lie in the receive buffer of the call. If the parts are unequal, or if the group has more ranks
// than owners, reduce replaces reduce-scatter, and broadcast replaces all-gather.
//
// The calling thread issues all steps of its calls, in the order of the calls. NCCL therefore gets
// its collectives in the same order on all ranks. NCCL requires this order if communicators share
// devices.
//
// A group is usable, partly issued, or ended. A group becomes partly issued if a call fails after
// some of the call was issued. A partly issued group refuses later calls.
//
// issue(), issueInGroup() and finalize() run on the thread that may call NCCL with the
// communicator. Any thread may call the other functions.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "src/base/mutex.h"
#include "src/cuda/device.h"
#include "src/nccl/call.h"
#include "src/nccl/call_pieces.h"
#include "src/nccl/rank_order/rank_order_reduce.h"

namespace bps::nccl {

class LocalGpuGroup {
 public:
  struct Shape {
    int groupRank = 0, size = 1;  // this rank's number in the group, and the number of ranks in it
    int owners = 1;
    bool isOnlyGroup = false;  // the group has all ranks, so no part goes to bps
    OrderRules order;
    std::vector<int> places = {};  // see RankOrderReduce::create(); needed if order.addsInRankOrder
    std::string noRankOrder = {};  // why sums cannot be in rank order, if BPS_NCCL_LOCAL=exact asks for it
  };
  // `localComm` is NCCL's communicator of the group, or null if the group has one rank.
  // `ownersComm` is the bps communicator of the owners of this rank's part, or null if this rank
  // owns no part. These two communicators belong to the group, even if create() fails. While a
  // non-blocking `localComm` launches a call, the group polls `stop`. If stop() returns true, the
  // call fails.
  static Result<std::unique_ptr<LocalGpuGroup>> create(const Shape& shape, cuda::Device& device, ncclComm_t localComm,
                                                       bpsComm_t ownersComm, std::function<bool()> stop = {});
  ~LocalGpuGroup();
  LocalGpuGroup(const LocalGpuGroup&) = delete;
  LocalGpuGroup& operator=(const LocalGpuGroup&) = delete;

  // From now on a failure of this group fails `parent`, the communicator of all ranks, and vice
  // versa. `parent` must outlive the group. `part` names the rank's part in messages.
  void linkToParent(bpsComm_t parent, const std::string& part);

  std::string describe() const;

  // supports() depends only on the type, operation and size of the call, so all ranks get the same
  // result.
  bool supports(const Call& call) const { return combinerOf(call, shape_.order) != Combiner::kNone; }
  // Issues the call and does not wait for its end. The thread must have no open NCCL group, because
  // an open group would delay NCCL's part of the call. If the call fails after a part of it was
  // issued, issue() fails the parent. Otherwise the other ranks would wait for the rest of the
  // call, or mistake this rank's next call for it.
  ncclResult_t issue(const Call& call);
  // Issues the call although the thread has an open NCCL group. The call goes ahead of the calls
  // that the open group holds.
  ncclResult_t issueInGroup(const Call& call);

  // Waits until all calls have ended, while failure() returns ncclSuccess. `inFlight` is true if a
  // part of this rank is in flight.
  ncclResult_t finalize(const std::function<ncclResult_t(bool inFlight)>& failure);
  // Ends the group. After end() returns, no call touches a buffer. If `abort` is true, end() also
  // ends calls that would otherwise wait forever.
  void end(bool abort);

  // Returns the failure of NCCL's communicator. A failure of the owners' communicator reaches the
  // parent without error().
  ncclResult_t error();
  std::string lastError();

 private:
  using Collective = std::function<ncclResult_t(int owner, const OwnerPart& part, ncclComm_t localComm)>;
  LocalGpuGroup(const Shape& shape, cuda::Device& device, ncclComm_t localComm, bpsComm_t ownersComm)
      : shape_(shape), device_(device), localComm_(localComm), ownersComm_(ownersComm) {}
  bool isOwner() const { return !shape_.isOnlyGroup && shape_.groupRank < shape_.owners; }
  ncclResult_t issueOutsideGroup(const Call& call, bool& anyIssued);
  ncclResult_t issuePieces(const Call& call, bool& anyIssued);
  ncclResult_t failIfPartlyIssued(ncclResult_t issued, bool anyIssued);
  ncclResult_t waitLaunched(ncclResult_t asked);
  ncclResult_t inNcclGroup(const RankOrderReduce::NcclCalls& calls);
  ncclResult_t forEachOwner(const Piece& piece, const Collective& collective);
  ncclResult_t reduceToOwners(const Call& call, const Piece& piece, Combiner combiner);
  ncclResult_t copyToReceiveBuffer(const Call& call, const Piece& piece) const;
  ncclResult_t exchange(const Call& call, const Piece& piece, cudaStream_t stream);
  ncclResult_t gatherFromOwners(const Call& call, const Piece& piece);
  ncclResult_t drain(const std::function<ncclResult_t(bool inFlight)>& failure, bpsComm_t ownersComm);
  void abortComms(bpsComm_t ownersComm, ncclComm_t localComm) const;
  // Returns null if the group has ended or has only one rank.
  ncclComm_t localComm() {
    const MutexLock lock(mutex_);
    return localComm_;
  }

  const Shape shape_;
  cuda::Device& device_;
  std::function<bool()> shouldStop_;
  std::vector<std::unique_ptr<cuda::OwnedStream>> streams_;  // one stream for each piece of a call
  std::unique_ptr<cuda::OwnedStream> groupCallStream_;       // carries calls of issueInGroup()
  std::unique_ptr<cuda::OwnedStream> completionStream_;      // idle when all calls have ended
  std::unique_ptr<RankOrderReduce> rankOrder_;               // null if the group never adds in rank order
  // mutex_ is not held during calls of NCCL, except queries of errors. end() must not run during
  // such a query.
  Mutex mutex_;
  ncclComm_t localComm_ BPS_GUARDED_BY(mutex_);
  bpsComm_t ownersComm_ BPS_GUARDED_BY(mutex_);
  bpsComm_t parent_ BPS_GUARDED_BY(mutex_) = nullptr;
  bool ended_ BPS_GUARDED_BY(mutex_) = false;
  bool partlyIssued_ BPS_GUARDED_BY(mutex_) = false;
  bool issuing_ BPS_GUARDED_BY(mutex_) = false;
  CondVar issuingEnded_;
};

}  // namespace bps::nccl
