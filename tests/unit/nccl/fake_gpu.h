// A GPU without hardware for unit tests: a table of CUDA functions that all succeed, and the NCCL double of
// tests/fake_nccl on host memory. Tests decide when streams are idle. Threads: any.
#pragma once
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <vector>

#include "src/cuda/device.h"
#include "src/nccl/call.h"
#include "tests/fake_nccl/fake_nccl.h"

namespace bps::nccl {

// While false, every stream of the fake device has work in flight.
extern std::atomic<bool> streamsIdle;
cuda::Device& fakeDevice();

// The functions of the NCCL double, see fake_nccl.h.
struct FakeNccl {
  decltype(&fakeNcclCalls) calls;
  decltype(&fakeNcclClearCalls) clearCalls;
  decltype(&fakeNcclFail) fail;
};
const FakeNccl& fakeNccl();

// Resets the doubles before each test, and removes the files of the NCCL double after it.
class FakeGpuTest : public testing::Test {
 protected:
  FakeGpuTest();
  ~FakeGpuTest() override;
  static std::string takeCalls();
  // A communicator of one rank. It is ready.
  static ncclComm_t makeComm(bool blocking = true);
  // A sum of `count` floats.
  Call makeCall(size_t count);
  std::vector<float> send_, recv_;
  std::string directory_;
};

}  // namespace bps::nccl
