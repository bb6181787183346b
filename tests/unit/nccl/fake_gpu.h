// A fake GPU for unit tests. The fake GPU consists of a table of CUDA functions that all succeed, and the fake NCCL
// library of tests/fake_nccl, which uses host memory. Tests decide when streams are idle. Any thread may use the fake
// GPU.
#pragma once
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <vector>

#include "src/cuda/device.h"
#include "src/nccl/call.h"
#include "tests/fake_nccl/fake_nccl.h"

namespace bps::nccl {

// While this is false, every stream of the fake device appears to have unfinished work.
extern std::atomic<bool> streamsIdle;
cuda::Device& fakeDevice();

// The functions by which tests control the fake NCCL library; fake_nccl.h describes them.
struct FakeNccl {
  decltype(&fakeNcclCalls) calls;
  decltype(&fakeNcclClearCalls) clearCalls;
  decltype(&fakeNcclFail) fail;
};
const FakeNccl& fakeNccl();

// Resets the fake GPU before each test. Removes the files of the fake NCCL library after each test.
class FakeGpuTest : public testing::Test {
 protected:
  FakeGpuTest();
  ~FakeGpuTest() override;
  static std::string takeCalls();
  // Returns an NCCL communicator of one rank that is ready for calls.
  static ncclComm_t makeComm(bool blocking = true);
  // Returns an all-reduce of `count` floats from send_ to recv_.
  Call makeCall(size_t count);
  std::vector<float> send_, recv_;
  std::string directory_;
};

}  // namespace bps::nccl
