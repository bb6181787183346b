#include "parameters.h"

#include <algorithm>

#include "types.h"

namespace bps_torch {
namespace {

size_t countOf(const at::Tensor& tensor) { return static_cast<size_t>(tensor.numel()); }

bpsDataType_t typeOf(const at::Tensor& tensor) { return *dataTypeOf(tensor.scalar_type()); }

}  // namespace

TorchParameters::TorchParameters(std::shared_ptr<Communicator> group, std::vector<at::Tensor> parameters)
    : group_(std::move(group)), parameters_(std::move(parameters)) {
  TORCH_CHECK(!parameters_.empty(), "AsyncOptimizer: there are no parameters");
  for (const at::Tensor& parameter : parameters_)
    TORCH_CHECK(parameter.is_cpu() && dataTypeOf(parameter.scalar_type()) && parameter.is_contiguous(),
                "AsyncOptimizer: a parameter of shape ", parameter.sizes(), " is ", parameter.toString(),
                "; parameters must be contiguous, in host memory and of a type that bps has");
  comm_ = group_->split();
  check(bpsHostStreamCreate(&stream_), "bpsHostStreamCreate");
  for (size_t i = 0; i < parameters_.size(); ++i)
    check(bpsParamInit(comm_, i, parameters_[i].data_ptr(), countOf(parameters_[i]), typeOf(parameters_[i])),
          "bpsParamInit");
}

TorchParameters::~TorchParameters() {
  if (comm_ != nullptr) bpsCommAbort(comm_);
  if (stream_ != nullptr) bpsHostStreamDestroy(stream_);
}

void TorchParameters::pushPull(const std::vector<at::Tensor>& changes) {
  TORCH_CHECK(changes.size() == parameters_.size(), "AsyncOptimizer: ", changes.size(), " changes of ",
              parameters_.size(), " parameters");
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const at::Tensor& parameter = parameters_[i];
    const at::Tensor& change = changes[i];
    TORCH_CHECK(change.is_cpu() && change.is_contiguous() && change.scalar_type() == parameter.scalar_type() &&
                    change.numel() == parameter.numel(),
                "AsyncOptimizer: the change of a parameter of shape ", parameter.sizes(), " is ", change.toString(),
                " of shape ", change.sizes());
    check(bpsParamPushPull(comm_, i, change.data_ptr(), parameter.data_ptr(), countOf(parameter), typeOf(parameter),
                           stream_),
          "bpsParamPushPull");
  }
  wait();
}

void TorchParameters::pull() {
  for (size_t i = 0; i < parameters_.size(); ++i)
    check(bpsParamPull(comm_, i, parameters_[i].data_ptr(), countOf(parameters_[i]), typeOf(parameters_[i]), stream_),
          "bpsParamPull");
  wait();
}

void TorchParameters::wait() { check(bpsHostStreamSynchronize(stream_), "bpsHostStreamSynchronize"); }

std::vector<uint64_t> TorchParameters::pushes() const {
  int ranks = 0;
  check(bpsCommCount(comm_, &ranks), "bpsCommCount");
  std::vector<uint64_t> least(static_cast<size_t>(ranks)), one(least.size());
  bool first = true;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (countOf(parameters_[i]) == 0) continue;
    check(bpsParamPushes(comm_, i, one.data()), "bpsParamPushes");
    for (size_t rank = 0; rank < least.size(); ++rank)
      least[rank] = first ? one[rank] : std::min(least[rank], one[rank]);
    first = false;
  }
  return least;
}

void TorchParameters::finish() {
  check(bpsParamBarrier(comm_), "bpsParamBarrier");
  pull();
  bpsCommFinalize(comm_);  // fails if a rank was lost
}

}  // namespace bps_torch
