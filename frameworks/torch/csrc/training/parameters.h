// TorchParameters: the parameters of a PyTorch model for asynchronous training (bps/params.h). It has a communicator of
// its own, so the process group may be used beside it. The Python class bps_torch.AsyncOptimizer uses it, on one thread
// at a time.
#pragma once
#include <ATen/ATen.h>
#include <bps/params.h>

#include <memory>
#include <vector>

#include "communicator.h"

namespace bps_torch {

class TorchParameters {
 public:
  // All ranks of the group make their parameters together: they get the values of rank 0. Waits for the ranks. The
  // tensors are contiguous, in host memory, and keep their places.
  TorchParameters(std::shared_ptr<Communicator> group, std::vector<at::Tensor> parameters);
  ~TorchParameters();

  // Pushes a change of each parameter, writes the latest values to the parameters, and waits for them.
  void pushPull(const std::vector<at::Tensor>& changes);
  void pull();
  // How many pushes of each rank the values contain.
  std::vector<uint64_t> pushes() const;
  // Waits until all ranks have called finish(), and writes the final values to the parameters.
  void finish();

 private:
  void check(bpsResult_t result, const char* what) const { group_->check(result, what); }
  void wait();

  const std::shared_ptr<Communicator> group_;
  const std::vector<at::Tensor> parameters_;
  bpsComm_t comm_ = nullptr;
  bpsHostStream_t stream_ = nullptr;
};

}  // namespace bps_torch
