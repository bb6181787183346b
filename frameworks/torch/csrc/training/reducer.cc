#include "reducer.h"

#include <bps/bps_ext.h>

#include "types.h"

namespace bps_torch {

TorchReducer::TorchReducer(std::shared_ptr<Communicator> group, const std::vector<at::Tensor>& parameters,
                           const ReducerOptions& options)
    : group_(std::move(group)), parameters_(parameters) {
  TORCH_CHECK(options.communicators >= 1, "Reducer: communicators is ", options.communicators, ", expected 1 or more");
  for (const at::Tensor& parameter : parameters_)
    TORCH_CHECK(parameter.is_cpu() && dataTypeOf(parameter.scalar_type()) && parameter.is_contiguous(),
                "Reducer: a parameter of shape ", parameter.sizes(), " is ", parameter.toString(),
                "; parameters must be contiguous, in host memory and of a type that bps has");
  try {
    for (size_t i = 0; i < options.communicators; ++i) comms_.push_back(group_->split());
    if (options.urgentBytes > 0) {
      urgent_ = group_->split();
      check(bpsCommSetPriority(urgent_, 1), "bpsCommSetPriority");
    }
    createReducer(options);
  } catch (...) {
    free();
    throw;
  }
}

void TorchReducer::createReducer(const ReducerOptions& options) {
  std::vector<size_t> counts;
  std::vector<bpsDataType_t> types;
  for (const at::Tensor& parameter : parameters_) {
    counts.push_back(static_cast<size_t>(parameter.numel()));
    types.push_back(*dataTypeOf(parameter.scalar_type()));
  }
  bpsReducerConfig_t config = BPS_REDUCER_CONFIG_INITIALIZER;
  config.bucketBytes = options.bucketBytes;
  config.firstBucketBytes = options.firstBucketBytes;
  config.gradientsAreViews = 1;
  config.urgentComm = urgent_;
  config.urgentBytes = options.urgentBytes;
  check(bpsReducerCreate(&reducer_, counts.size(), counts.data(), types.data(), comms_.size(), comms_.data(), &config),
        "bpsReducerCreate");
}

TorchReducer::~TorchReducer() { free(); }

void TorchReducer::free() {
  bpsReducerDestroy(reducer_);
  for (const bpsComm_t comm : comms_) bpsCommDestroy(comm);
  if (urgent_ != nullptr) bpsCommDestroy(urgent_);
}

void TorchReducer::check(bpsResult_t result, const char* what) const { group_->check(result, what); }

std::vector<at::Tensor> TorchReducer::gradients() const {
  std::vector<at::Tensor> gradients;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    void* place = nullptr;
    check(bpsReducerGradient(reducer_, i, &place), "bpsReducerGradient");
    gradients.push_back(at::from_blob(place, parameters_[i].sizes(), parameters_[i].options().requires_grad(false)));
  }
  return gradients;
}

bool TorchReducer::begin(bool synchronize) {
  int moved = 0;
  check(bpsReducerBegin(reducer_, synchronize ? 1 : 0, &moved), "bpsReducerBegin");
  return moved != 0;
}

void TorchReducer::ready(size_t parameter) { check(bpsReducerReady(reducer_, parameter, nullptr), "bpsReducerReady"); }

void TorchReducer::unused(size_t parameter) {
  check(bpsReducerUnused(reducer_, parameter, nullptr), "bpsReducerUnused");
}

void TorchReducer::wait(size_t parameter) { check(bpsReducerWait(reducer_, parameter), "bpsReducerWait"); }

void TorchReducer::finish() { check(bpsReducerFinish(reducer_), "bpsReducerFinish"); }

bool TorchReducer::used(size_t parameter) const {
  int used = 0;
  check(bpsReducerUsed(reducer_, parameter, &used), "bpsReducerUsed");
  return used != 0;
}

std::vector<bpsReducerBucket_t> TorchReducer::stats() const {
  size_t count = 0;
  check(bpsReducerStats(reducer_, nullptr, &count), "bpsReducerStats");
  std::vector<bpsReducerBucket_t> buckets(count);
  check(bpsReducerStats(reducer_, buckets.data(), &count), "bpsReducerStats");
  return buckets;
}

}  // namespace bps_torch
