// The data types and operations of PyTorch, as bps names them.
#pragma once
#include <ATen/ATen.h>
#include <bps/bps.h>

#include <optional>
#include <torch/csrc/distributed/c10d/Types.hpp>

namespace bps_torch {

// Null if bps has no such type or operation. PREMUL_SUM is an operation of a communicator (communicator.h), so it is
// null here.
std::optional<bpsDataType_t> dataTypeOf(at::ScalarType type);
std::optional<bpsRedOp_t> builtInOpOf(const c10d::ReduceOp& op);

// True if bps all-reduces such tensors with this operation. The answer depends only on what all ranks have in common.
bool isSupported(const at::Tensor& tensor, const c10d::ReduceOp& op);

}  // namespace bps_torch
