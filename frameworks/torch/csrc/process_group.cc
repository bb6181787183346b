#include "process_group.h"

#include <torch/csrc/utils/pybind.h>
#include <algorithm>

#include "types.h"

namespace bps_torch {
namespace {

bool allSupported(const std::vector<at::Tensor>& tensors, const c10d::ReduceOp& op) {
  return std::all_of(tensors.begin(), tensors.end(), [&](const at::Tensor& tensor) { return isSupported(tensor, op); });
}

// A tensor without gaps can be reduced in place, in whatever order its elements lie in memory.
void requireDense(const std::vector<at::Tensor>& tensors) {
  for (const at::Tensor& tensor : tensors)
    TORCH_CHECK(tensor.is_non_overlapping_and_dense(), "all_reduce: the elements of the tensor (shape ", tensor.sizes(),
                ", strides ", tensor.strides(), ") do not lie side by side in memory; pass tensor.contiguous()");
}

}  // namespace

ProcessGroupBps::ProcessGroupBps(GroupOptions options, c10::intrusive_ptr<c10d::Backend> gloo)
    : Backend(options.rank, options.size),
      communicator_(Communicator::create(std::move(options))),
      gloo_(std::move(gloo)) {}

// A thread of the communicator may wait for Python's lock, so this thread must not hold it while it joins that thread.
ProcessGroupBps::~ProcessGroupBps() {
  std::optional<pybind11::gil_scoped_release> unlocked;
  if (Py_IsInitialized() != 0 && PyGILState_Check() != 0) unlocked.emplace();
  communicator_->shutdown();
}

c10::intrusive_ptr<c10d::Backend::Options> ProcessGroupBps::getBackendOptions() {
  return c10::make_intrusive<Options>("bps", communicator_->timeout());
}

ProcessGroupBps::WorkPtr ProcessGroupBps::reduceAll(const Tensors& tensors, const c10d::AllreduceOptions& options,
                                                    c10d::OpType type) {
  requireDense(tensors);
  return communicator_->allReduce({type, tensors, options.reduceOp, options.timeout});
}

ProcessGroupBps::WorkPtr ProcessGroupBps::allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) {
  TORCH_CHECK(tensors.size() == 1, "all_reduce: expected one tensor, got ", tensors.size());
  if (!allSupported(tensors, options.reduceOp)) return gloo_->allreduce(tensors, options);
  return reduceAll(tensors, options, c10d::OpType::ALLREDUCE);
}

ProcessGroupBps::WorkPtr ProcessGroupBps::allreduce_coalesced(Tensors& tensors,
                                                              const c10d::AllreduceCoalescedOptions& options) {
  const auto elsewhere = [&](const at::Tensor& tensor) { return tensor.device() != tensors.front().device(); };
  if (tensors.empty() || !allSupported(tensors, options.reduceOp) ||
      std::any_of(tensors.begin(), tensors.end(), elsewhere))
    return gloo_->allreduce_coalesced(tensors, options);
  return reduceAll(tensors, options, c10d::OpType::ALLREDUCE_COALESCED);
}

void ProcessGroupBps::setTimeout(std::chrono::milliseconds timeout) {
  communicator_->setTimeout(timeout);
  gloo_->setTimeout(timeout);
}

void ProcessGroupBps::abort() {
  communicator_->revoke("the process group was aborted by this process");
  gloo_->abort();
}

void ProcessGroupBps::shutdown() {
  communicator_->shutdown();
  gloo_->shutdown();
}

uint64_t ProcessGroupBps::getSequenceNumberForGroup() {
  return gloo_->getSequenceNumberForGroup() + communicator_->calls();
}

ProcessGroupBps::WorkPtr ProcessGroupBps::broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) {
  return gloo_->broadcast(tensors, options);
}

ProcessGroupBps::WorkPtr ProcessGroupBps::allreduce_sparse(Tensors& tensors, const c10d::AllreduceOptions& options) {
  return gloo_->allreduce(tensors, options);  // Gloo has no other function for sparse tensors
}

ProcessGroupBps::WorkPtr ProcessGroupBps::reduce(Tensors& tensors, const c10d::ReduceOptions& options) {
  return gloo_->reduce(tensors, options);
}

ProcessGroupBps::WorkPtr ProcessGroupBps::allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                                                    const c10d::AllgatherOptions& options) {
  return gloo_->allgather(outputs, inputs, options);
}

ProcessGroupBps::WorkPtr ProcessGroupBps::_allgather_base(at::Tensor& output, at::Tensor& input,
                                                          const c10d::AllgatherOptions& options) {
  return gloo_->_allgather_base(output, input, options);
}

ProcessGroupBps::WorkPtr ProcessGroupBps::allgather_coalesced(std::vector<Tensors>& outputs, Tensors& inputs,
                                                              const c10d::AllgatherOptions& options) {
  return gloo_->allgather_coalesced(outputs, inputs, options);
}

ProcessGroupBps::WorkPtr ProcessGroupBps::allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                                          const c10d::AllgatherOptions& options) {
  return gloo_->allgather_into_tensor_coalesced(outputs, inputs, options);
}

ProcessGroupBps::WorkPtr ProcessGroupBps::gather(std::vector<Tensors>& outputs, Tensors& inputs,
                                                 const c10d::GatherOptions& options) {
  return gloo_->gather(outputs, inputs, options);
}

ProcessGroupBps::WorkPtr ProcessGroupBps::scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                                                  const c10d::ScatterOptions& options) {
  return gloo_->scatter(outputs, inputs, options);
}

ProcessGroupBps::WorkPtr ProcessGroupBps::reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                                                         const c10d::ReduceScatterOptions& options) {
  return gloo_->reduce_scatter(outputs, inputs, options);
}

ProcessGroupBps::WorkPtr ProcessGroupBps::_reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                                               const c10d::ReduceScatterOptions& options) {
  return gloo_->_reduce_scatter_base(output, input, options);
}

ProcessGroupBps::WorkPtr ProcessGroupBps::reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                                          const c10d::ReduceScatterOptions& options) {
  return gloo_->reduce_scatter_tensor_coalesced(outputs, inputs, options);
}

ProcessGroupBps::WorkPtr ProcessGroupBps::alltoall_base(at::Tensor& output, at::Tensor& input,
                                                        std::vector<int64_t>& outputSizes,
                                                        std::vector<int64_t>& inputSizes,
                                                        const c10d::AllToAllOptions& options) {
  return gloo_->alltoall_base(output, input, outputSizes, inputSizes, options);
}

ProcessGroupBps::WorkPtr ProcessGroupBps::alltoall(Tensors& outputs, Tensors& inputs,
                                                   const c10d::AllToAllOptions& options) {
  return gloo_->alltoall(outputs, inputs, options);
}

ProcessGroupBps::WorkPtr ProcessGroupBps::send(Tensors& tensors, int rank, int tag) {
  return gloo_->send(tensors, rank, tag);
}

ProcessGroupBps::WorkPtr ProcessGroupBps::recv(Tensors& tensors, int rank, int tag) {
  return gloo_->recv(tensors, rank, tag);
}

ProcessGroupBps::WorkPtr ProcessGroupBps::recvAnysource(Tensors& tensors, int tag) {
  return gloo_->recvAnysource(tensors, tag);
}

ProcessGroupBps::WorkPtr ProcessGroupBps::barrier(const c10d::BarrierOptions& options) {
  return gloo_->barrier(options);
}

void ProcessGroupBps::monitoredBarrier(const c10d::BarrierOptions& options, bool waitAllRanks) {
  gloo_->monitoredBarrier(options, waitAllRanks);
}

}  // namespace bps_torch
