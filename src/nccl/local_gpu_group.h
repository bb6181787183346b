// LocalGpuGroup: the GPUs of one machine, or of one PCIe switch, that combine their buffers by NCCL before and after
// bps all-reduces between groups. A call is cut into pieces and each piece into one part per owner (call_pieces.h):
//
//   caller's stream      reduce-scatter 0, 1, 2 ...              all-gather 0, 1, 2 ...
//   streams of bps           piece 0: bps all-reduces the owner's part
//                               piece 1: ...
//
// So the first pieces are on the network while NCCL reduces the next ones. The parts lie in the call's receive buffer.
// If parts are unequal, or the group has more ranks than owners, reduce and broadcast take the place of reduce-scatter
// and all-gather.
//
// The calling thread issues everything, in the order of its calls. So NCCL gets its collectives in one order on all
// ranks, as it demands of communicators that share devices.
//
// States: usable; partly issued (a call failed after some of it was issued: later calls are refused); ended.
//
// Threads: issue(), issueInGroup() and finalize() on the thread that may call NCCL with the communicator; the rest on
// any.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "src/base/mutex.h"
#include "src/cuda/device.h"
#include "src/nccl/call.h"
#include "src/nccl/call_pieces.h"

namespace bps::nccl {

class LocalGpuGroup {
 public:
  struct Shape {
    int groupRank = 0, size = 1;  // this rank's number in the group, and the group's ranks
    int owners = 1;
    bool allowsAnyOrder = false;
    bool isOnlyGroup = false;  // all ranks are in it: NCCL carries out the whole call
  };
  // `localComm`: NCCL's communicator of the group; null if it has one rank. `ownersComm`: the bps communicator of the
  // owners of this rank's part; null if it owns none. The group owns both, also if create() fails. `stop`: asked while
  // a non-blocking `localComm` launches; true ends the wait, and the call fails.
  static Result<std::unique_ptr<LocalGpuGroup>> create(const Shape& shape, cuda::Device& device, ncclComm_t localComm,
                                                       bpsComm_t ownersComm, std::function<bool()> stop = {});
  ~LocalGpuGroup() { end(true); }
  LocalGpuGroup(const LocalGpuGroup&) = delete;
  LocalGpuGroup& operator=(const LocalGpuGroup&) = delete;

  // From now on a failure of this group fails `parent`, the communicator of all ranks, and vice versa. `parent`
  // outlives the group. `part` names the rank's part in messages.
  void linkToParent(bpsComm_t parent, const std::string& part);

  std::string describe() const;
  // Why the device cannot be in a group; empty: it can. A stream stands at a failed part until an abort. Without stream
  // memory operations it would hold up all host functions of the process.
  static std::string unsupportedReason(const cuda::Device& device) {
    return device.hasStreamMemOps() ? "" : "its CUDA device has no stream memory operations";
  }

  // Depends on type, operation and size alone, so all ranks choose alike.
  bool supports(const Call& call) const { return canCombine(call, shape_.allowsAnyOrder); }
  // Does not wait. The thread must have no NCCL group open, which would delay NCCL's part of the call. If the call
  // fails after a part of it was issued, this fails the parent: the other ranks wait for the rest, or take the next
  // call for it.
  ncclResult_t issue(const Call& call);
  // Issues from within the thread's open NCCL group, ahead of what that group holds.
  ncclResult_t issueInGroup(const Call& call);

  // Waits for the end of all calls while failure() returns ncclSuccess. `inFlight`: a part of this rank is in flight.
  ncclResult_t finalize(const std::function<ncclResult_t(bool inFlight)>& failure);
  // No call touches a buffer after it returns. `abort`: ends calls that would wait forever.
  void end(bool abort);

  // The failure of NCCL's communicator. Failures of the owners' communicator reach the parent.
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
  ncclResult_t forEachOwner(const Piece& piece, const Collective& collective);
  ncclResult_t reduceToOwners(const Call& call, const Piece& piece);
  ncclResult_t copyToReceiveBuffer(const Call& call, const Piece& piece) const;
  ncclResult_t exchange(const Call& call, const Piece& piece, cudaStream_t stream);
  ncclResult_t gatherFromOwners(const Call& call, const Piece& piece);
  ncclResult_t drain(const std::function<ncclResult_t(bool inFlight)>& failure, bpsComm_t ownersComm);
  void abortComms(bpsComm_t ownersComm, ncclComm_t localComm) const;
  // Null: the group has ended.
  ncclComm_t localComm() {
    const MutexLock lock(mutex_);
    return localComm_;
  }

  const Shape shape_;
  cuda::Device& device_;
  std::function<bool()> shouldStop_;
  std::vector<std::unique_ptr<cuda::OwnedStream>> streams_;  // one for each piece of a call
  std::unique_ptr<cuda::OwnedStream> groupCallStream_;       // carries calls of issueInGroup()
  std::unique_ptr<cuda::OwnedStream> completionStream_;      // idle when all calls have ended
  Mutex mutex_;  // held during no call of NCCL's but questions for errors, which end() must not overtake
  ncclComm_t localComm_ BPS_GUARDED_BY(mutex_);
  bpsComm_t ownersComm_ BPS_GUARDED_BY(mutex_);
  bpsComm_t parent_ BPS_GUARDED_BY(mutex_) = nullptr;
  bool ended_ BPS_GUARDED_BY(mutex_) = false;
  bool partlyIssued_ BPS_GUARDED_BY(mutex_) = false;
  bool issuing_ BPS_GUARDED_BY(mutex_) = false;
  CondVar issuingEnded_;
};

}  // namespace bps::nccl
