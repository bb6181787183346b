// Requests to parameters, for tests.
#pragma once
#include "src/comm/parameters/param_group.h"
#include "tests/support/data.h"

namespace bps::test {

struct Parameter {
  uint64_t key = 0;
  DataType type = DataType::kFloat32;
  size_t count = 0;
};

inline AllReduceCall request(CallOp op, const Parameter& parameter, const void* change, void* latest) {
  AllReduceCall call;
  call.op = op;
  call.type = parameter.type;
  call.count = parameter.count;
  call.send = op == CallOp::kParamPull ? latest : change;
  call.recv = op == CallOp::kParamPush ? const_cast<void*>(change) : latest;
  return call;
}

// Makes a request on a host stream, and waits for it.
inline Status runRequest(ParamGroup& group, const Parameter& parameter, AllReduceCall call) {
  call.stream = std::make_shared<HostStream>();
  BPS_TRY(group.request(parameter.key, call));
  return call.stream->synchronize();
}

}  // namespace bps::test
