// LocalGpuGroup: the ranks of one machine, or under one of its switches, combine their buffers by NCCL, on their GPUs,
// and bps all-reduces between the teams. A call is cut into pieces and a piece into parts, one for each owner
// (negotiation/capabilities.h):
//
//   caller's stream      reduce-scatter 0, 1, 2 ...              all-gather 0, 1, 2 ...
//   bps's own streams        piece 0: bps all-reduces the owner's part
//                               piece 1: ...
//
// So the first pieces are on the network while the next are reduced. Parts lie in the call's receive buffer all the
// time. Where parts are unequal, or a team has more ranks than owners, as where the machine's plan names roots, reduce
// and broadcast take the place of the two.
//
// All of it is issued by the calling thread, in the order of its calls: NCCL is asked for its collectives in the same
// order on all ranks, as it demands of communicators that share devices.
//
// Threads: issue() and finalize() by who may call NCCL with the communicator; the rest any.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "src/base/mutex.h"
#include "src/cuda/device.h"
#include "src/nccl/call.h"

namespace bps::nccl {

class LocalGpuGroup {
 public:
  struct Shape {
    int groupRank = 0, size = 1;  // of this rank in it
    int owners = 1;
    bool allowsAnyOrder = false;
    bool isOnlyGroup = false;  // there is no other team: NCCL does all of it
  };
  // `inside`: NCCL's communicator of the team, null if it has one rank. `across`: bps's of the owners of one part, null
  // if this rank owns none. Takes both, whatever comes of it. `stop`: a call need not be issued to its end any more,
  // though NCCL still waits for others; asked where `inside` is non-blocking.
  static Result<std::unique_ptr<LocalGpuGroup>> create(const Shape& shape, cuda::Device& device, ncclComm_t localComm,
                                                       bpsComm_t ownersComm, std::function<bool()> stop = {});
  ~LocalGpuGroup() { end(true); }
  LocalGpuGroup(const LocalGpuGroup&) = delete;
  LocalGpuGroup& operator=(const LocalGpuGroup&) = delete;

  // All ranks have a team: from now on it fails with bps's communicator of all, and that with it. `part`, for messages.
  void linkToParent(bpsComm_t parent, const std::string& part);

  std::string describe() const;
  // Why GPUs like this one do not team up; empty: they may. At a part that has failed a stream stands; without stream
  // memory operations so would all host functions of the process.
  static std::string unsupportedReason(const cuda::Device& device) {
    return device.hasStreamMemOps() ? "" : "its CUDA device has no stream memory operations";
  }

  // By type, operation and size alone: so all ranks choose alike.
  bool supports(const Call& call) const;
  // Does not wait. Not within an open group of NCCL's, which would hold up NCCL's part of it. What fails after a part
  // of it was issued ends the communicator of all: the other ranks wait for the rest, and would take the next call for
  // it.
  ncclResult_t issue(const Call& call);
  // Within one: it goes before what the group holds, as NCCL puts collectives before sends and receives.
  ncclResult_t issueInGroup(const Call& call);

  // Waits for the end of all calls, while `failure` of the communicator of all finds nothing wrong; it is told whether
  // a part of this rank's own is under way.
  ncclResult_t finalize(const std::function<ncclResult_t(bool inFlight)>& failure);
  // No call touches a buffer afterwards. `abort`: also if calls would never end.
  void end(bool abort);

  // Of NCCL's communicator; what goes wrong across machines is an error of the communicator that `across` is a part of.
  ncclResult_t error();
  std::string lastError();

 private:
  struct OwnerPart {
    size_t offset, count;
  };
  struct Piece {
    size_t offset, count;
    std::vector<OwnerPart> parts;  // by owner
    bool hasEqualParts;            // parts of one size, of all ranks
  };
  LocalGpuGroup(const Shape& shape, cuda::Device& device, ncclComm_t localComm, bpsComm_t ownersComm)
      : shape_(shape), device_(device), localComm_(localComm), ownersComm_(ownersComm) {}
  bool isOwner() const { return !shape_.isOnlyGroup && shape_.groupRank < shape_.owners; }
  std::vector<Piece> cut(const Call& call) const;
  ncclResult_t issueOutsideGroup(const Call& call, bool& anyIssued);
  ncclResult_t issuePieces(const Call& call, bool& anyIssued);
  ncclResult_t failIfPartlyIssued(ncclResult_t issued, bool anyIssued);
  ncclResult_t waitLaunched(ncclResult_t asked);
  ncclResult_t reduceToOwners(const Call& call, const Piece& piece);
  ncclResult_t exchange(const Call& call, const Piece& piece, cudaStream_t stream);
  ncclResult_t gatherFromOwners(const Call& call, const Piece& piece);
  ncclResult_t drain(const std::function<ncclResult_t(bool inFlight)>& failure, bpsComm_t ownersComm);
  void abortComms(bpsComm_t ownersComm, ncclComm_t localComm) const;
  // Null: ended.
  ncclComm_t localComm();

  const Shape shape_;
  cuda::Device& device_;
  std::function<bool()> shouldStop_;
  std::vector<std::unique_ptr<cuda::OwnedStream>> streams_;  // one for each piece of a call
  std::unique_ptr<cuda::OwnedStream> groupCallStream_;       // for calls in groups
  std::unique_ptr<cuda::OwnedStream> completionStream_;      // idle when all calls have ended
  Mutex mutex_;                                              // never held while NCCL is called, but to ask for errors
  ncclComm_t localComm_ BPS_GUARDED_BY(mutex_);
  bpsComm_t ownersComm_ BPS_GUARDED_BY(mutex_);
  bpsComm_t parent_ BPS_GUARDED_BY(mutex_) = nullptr;  // not this one's; outlives it
  bool ended_ BPS_GUARDED_BY(mutex_) = false;
  bool partlyIssued_ BPS_GUARDED_BY(mutex_) = false;  // a call was issued in part
  bool issuing_ BPS_GUARDED_BY(mutex_) = false;
  CondVar issuingEnded_;  // issuing_ has ended
};

}  // namespace bps::nccl
