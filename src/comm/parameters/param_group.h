// ParamGroup: the parameters that the ranks of a communicator train asynchronously (BytePS paper, section 5).
//
// A ParamGroup has a communicator of its own, whose owners keep the parameters (service/param_service.h) in place of
// summing calls. Every rank counts as a machine of its own there, so ranks of one machine do not wait for each other.
// The parameters are cut as calls of the parent communicator are, each of them in the same way all the time.
//
// One thread at a time uses a ParamGroup.
#pragma once
#include <cstdint>
#include <map>
#include <memory>

#include "src/comm/communicator.h"

namespace bps {

class ParamGroup {
 public:
  // All ranks of `parent` call create() while no call is in flight on it, and then start(). Both block, as the start of
  // a communicator. If start() fails, only abort() may be called.
  static Result<std::unique_ptr<ParamGroup>> create(Communicator& parent);
  Status start(const Communicator& parent);

  // Makes a parameter with the values of rank 0, and writes these values to `data` on all ranks. Blocks. All ranks make
  // the same parameters in the same order. If they disagree, all ranks get an error that names two of them.
  Status init(uint64_t key, void* data, size_t count, DataType type);
  // Queues a push, a pull, or both. Does not block. `call` has buffers, count, type, operation and stream.
  Status request(uint64_t key, const AllReduceCall& call);
  // How many pushes of each rank the value contains that this rank has got last.
  Result<std::vector<uint32_t>> pushes(uint64_t key) const;
  // Waits until all ranks have called barrier(), without a limit. All pushes before it have then been added.
  Status barrier();
  // barrier(), and then leaves the other ranks.
  Status finish();
  // Ends all calls of this rank. Any thread may call abort().
  void abort() const;
  Status failure() const { return comm_->failure(); }
  Communicator& communicator() { return *comm_; }

 private:
  struct Parameter {
    uint32_t index = 0;
    size_t count = 0;
    DataType type = DataType::kFloat32;
    uint32_t pushes = 0;  // of this rank
    std::shared_ptr<ParamCall::Progress> latest;
  };

  ParamGroup() = default;
  Result<size_t> agree(uint64_t key, size_t count, DataType type);
  Result<const Parameter*> find(uint64_t key) const;
  Status run(CallOp op, Parameter& parameter, void* data);
  // Sends a request to all owners. Returns what they tell about each rank: the least of all answers.
  Result<std::vector<uint32_t>> askOwners(CallOp op, uint32_t number);

  std::unique_ptr<Communicator> comm_;
  std::map<uint64_t, Parameter> parameters_;
  uint32_t barriers_ = 0;               // reached
  std::shared_ptr<HostStream> stream_;  // of the requests that this class waits for
};

}  // namespace bps
