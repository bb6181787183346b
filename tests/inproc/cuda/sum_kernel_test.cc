// The kernel that adds in rank order, on the fake CUDA driver: it runs in the order of its stream, and the fake refuses
// what a real driver would refuse.
#include <gtest/gtest.h>

#include <cstring>

#include "src/cuda/sum/sum_loader.h"
#include "tests/inproc/fake_cuda_harness.h"

namespace bps::test {
namespace {

constexpr size_t kCount = 1000;
constexpr char kText[] = ".version 6.0\n.target sm_70\n.address_size 64\n.visible .entry bps_sum_in_rank_order(";

struct Contributions {
  Buffer own{Memory::kDevice, kCount * sizeof(float)}, received{Memory::kDevice, 2 * kCount * sizeof(float)};
  // The contribution of the second of three ranks.
  cuda::SumArguments arguments() const {
    return {own.get(),
            own.get(),
            received.get(),
            kCount * sizeof(float),
            kCount,
            3,
            1,
            static_cast<uint32_t>(DataType::kFloat32),
            static_cast<uint32_t>(FoldOp::kSum)};
  }
  float* ownFloats() const { return reinterpret_cast<float*>(own.bytes()); }
  float* receivedFloats() const { return reinterpret_cast<float*>(received.bytes()); }
};

TEST(SumKernelOnDevice, RunsInTheOrderOfItsStream) {
  const cuda::ScopedContext scope(device(0));
  Result<const cuda::SumKernel*> loaded = cuda::SumKernel::load(device(0));
  ASSERT_TRUE(loaded.ok()) << loaded.error().message();
  const Contributions data;
  const AppStream stream;
  const auto release = stream.hold();
  stream.run([&] {  // an earlier kernel writes the contributions
    for (size_t i = 0; i < kCount; ++i) {
      data.receivedFloats()[i] = 16777216;            // rank 0
      data.ownFloats()[i] = 1;                        // rank 1
      data.receivedFloats()[kCount + i] = -16777216;  // rank 2
    }
  });
  EXPECT_TRUE((*std::move(loaded).value()).launch(data.arguments(), stream.get()).ok());
  release();
  stream.synchronize();
  for (size_t i = 0; i < kCount; ++i) ASSERT_EQ(data.ownFloats()[i], 0) << "(2^24 + 1) - 2^24 in float, element " << i;
}

TEST(SumKernelOnDevice, LoadsOncePerDevice) {
  Result<const cuda::SumKernel*> first = cuda::SumKernel::load(device(0));
  ASSERT_TRUE(first.ok());
  const uint64_t loads = fakeCuda().calls("cuModuleLoadData");
  EXPECT_EQ(std::move(cuda::SumKernel::load(device(0))).value(), std::move(first).value());
  EXPECT_EQ(fakeCuda().calls("cuModuleLoadData"), loads);
}

// A load that fails is tried again by the next communicator.
TEST(SumKernelOnDevice, FailureNamesTheFunctionOfTheDriver) {
  constexpr int kNotSupported = 801;
  fakeCuda().fail("cuModuleLoadData", 1, kNotSupported);
  const Result<const cuda::SumKernel*> failed = cuda::SumKernel::load(device(1));
  ASSERT_FALSE(failed.ok());
  EXPECT_NE(std::string(failed.error().message()).find("cuModuleLoadData"), std::string::npos);
  EXPECT_TRUE(cuda::SumKernel::load(device(1)).ok());
}

TEST(SumKernelOnDevice, TheFakeDriverRefusesWhatADriverRefuses) {
  const cuda::ScopedContext scope(device(0));
  cuda::Module module = nullptr;
  cuda::Function function = nullptr;
  EXPECT_NE(api().moduleLoadData(&module, "no PTX"), cuda::kSuccess);
  EXPECT_NE(api().moduleLoadData(&module, ".version 6.0\n.target sm_99\n.address_size 64\n"), cuda::kSuccess);
  ASSERT_EQ(api().moduleLoadData(
                &module, (std::string(kText) + ".param .align 8 .b8 bps_sum_in_rank_order_param_0[56])").c_str()),
            cuda::kSuccess);
  EXPECT_NE(api().moduleGetFunction(&function, module, "another_kernel"), cuda::kSuccess);
  ASSERT_EQ(api().moduleGetFunction(&function, module, cuda::kSumKernelName), cuda::kSuccess);
  cuda::SumArguments sum{};
  const AppStream stream;
  const auto launch = [&](size_t bytes, unsigned blockThreads) {
    void* extra[] = {reinterpret_cast<void*>(1), &sum, reinterpret_cast<void*>(2), &bytes, nullptr};
    return api().launchKernel(function, 1, 1, 1, blockThreads, 1, 1, 0, stream.get(), nullptr, extra);
  };
  EXPECT_NE(launch(sizeof sum - 8, 256), cuda::kSuccess);
  EXPECT_NE(launch(sizeof sum + 8, 256), cuda::kSuccess);
  EXPECT_NE(launch(sizeof sum, 2048), cuda::kSuccess);
  EXPECT_EQ(launch(sizeof sum, 256), cuda::kSuccess);
  const cuda::ScopedContext other(device(1));
  EXPECT_NE(launch(sizeof sum, 256), cuda::kSuccess) << "the context of another device";
  stream.synchronize();
}

}  // namespace
}  // namespace bps::test
