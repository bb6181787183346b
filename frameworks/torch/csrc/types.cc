#include "types.h"

namespace bps_torch {

std::optional<bpsDataType_t> dataTypeOf(at::ScalarType type) {
  switch (type) {
    case at::kChar:
      return bpsInt8;
    case at::kByte:
      return bpsUint8;
    case at::kInt:
      return bpsInt32;
    case at::kUInt32:
      return bpsUint32;
    case at::kLong:
      return bpsInt64;
    case at::kUInt64:
      return bpsUint64;
    case at::kHalf:
      return bpsFloat16;
    case at::kFloat:
      return bpsFloat32;
    case at::kDouble:
      return bpsFloat64;
    case at::kBFloat16:
      return bpsBfloat16;
    case at::kFloat8_e4m3fn:
      return bpsFloat8e4m3;
    case at::kFloat8_e5m2:
      return bpsFloat8e5m2;
    default:
      return std::nullopt;
  }
}

std::optional<bpsRedOp_t> builtInOpOf(const c10d::ReduceOp& op) {
  switch (op.op_) {
    case c10d::ReduceOp::SUM:
      return bpsSum;
    case c10d::ReduceOp::AVG:
      return bpsAvg;
    case c10d::ReduceOp::PRODUCT:
      return bpsProd;
    case c10d::ReduceOp::MIN:
      return bpsMin;
    case c10d::ReduceOp::MAX:
      return bpsMax;
    default:
      return std::nullopt;
  }
}

bool isSupported(const at::Tensor& tensor, const c10d::ReduceOp& op) {
  const bool device = tensor.is_cpu() || tensor.is_cuda();
  const bool operation = builtInOpOf(op) || op.op_ == c10d::ReduceOp::PREMUL_SUM;
  return device && operation && tensor.layout() == at::kStrided && dataTypeOf(tensor.scalar_type());
}

}  // namespace bps_torch
