// TorchReducer: a bpsReducer (bps/reducer.h) over the parameters of a PyTorch model, whose gradients are views of the
// buckets. The reducer has communicators of its own, so the process group may be used beside it.
//
// Threads: as bps/reducer.h allows. The Python class bps_torch.Reducer uses it.
#pragma once
#include <ATen/ATen.h>
#include <bps/reducer.h>

#include <memory>
#include <vector>

#include "communicator.h"

namespace bps_torch {

struct ReducerOptions {
  size_t bucketBytes;
  size_t firstBucketBytes;
  size_t communicators;  // the buckets take turns on them
  size_t urgentBytes;    // of the first parameters, whose buckets overtake the others; 0: none
};

class TorchReducer {
 public:
  // All ranks of the group make their reducers together. Waits for them.
  TorchReducer(std::shared_ptr<Communicator> group, const std::vector<at::Tensor>& parameters,
               const ReducerOptions& options);
  ~TorchReducer();

  // Returns the gradients, which have the shapes of the parameters. They move if begin() returns true.
  std::vector<at::Tensor> gradients() const;
  bool begin(bool synchronize);
  void ready(size_t parameter);
  void unused(size_t parameter);
  void wait(size_t parameter);
  void finish();
  bool used(size_t parameter) const;
  std::vector<bpsReducerBucket_t> stats() const;

 private:
  void createReducer(const ReducerOptions& options);
  void free();
  void check(bpsResult_t result, const char* what) const;

  const std::shared_ptr<Communicator> group_;
  const std::vector<at::Tensor> parameters_;
  std::vector<bpsComm_t> comms_;
  bpsComm_t urgent_ = nullptr;
  bpsReducer_t reducer_ = nullptr;
};

}  // namespace bps_torch
