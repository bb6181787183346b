// Uses the public interface on CUDA streams and memory as a program does.
#include <gtest/gtest.h>

#include <cstring>
#include <thread>

#include "bps/bps.h"
#include "tests/inproc/fake_cuda_harness.h"

namespace bps::test {
namespace {

// Makes communicators of one rank on the devices of the fake CUDA driver.
class CudaApi : public testing::Test {
 protected:
  void SetUp() override { ::setenv("BPS_DEVICE", "cuda", 1); }
  void TearDown() override {
    for (bpsComm_t comm : comms_) EXPECT_EQ(bpsCommDestroy(comm), bpsSuccess) << bpsGetLastError(nullptr);
    ::setenv("BPS_DEVICE", "host", 1);
  }
  bpsComm_t join() {
    bpsUniqueId id;
    bpsComm_t comm = nullptr;
    EXPECT_EQ(bpsGetUniqueId(&id), bpsSuccess);
    EXPECT_EQ(bpsCommInitRank(&comm, 1, id, 0), bpsSuccess) << bpsGetLastError(nullptr);
    comms_.push_back(comm);
    return comm;
  }
  std::vector<bpsComm_t> comms_;
};

int deviceOf(bpsComm_t comm) {
  int number = -1;
  EXPECT_EQ(bpsCommCuDevice(comm, &number), bpsSuccess);
  return number;
}

TEST_F(CudaApi, CommunicatorsTakeTheThreadsDevice) {
  EXPECT_EQ(deviceOf(join()), 0);
  const cuda::ScopedContext scope(device(1));
  bpsComm_t comm = join(), part = nullptr;
  EXPECT_EQ(deviceOf(comm), 1);
  std::jthread([&] { EXPECT_EQ(bpsCommSplit(comm, 0, 0, &part, nullptr), bpsSuccess); }).join();
  EXPECT_EQ(deviceOf(part), 1) << "a part is where its whole is";
  EXPECT_EQ(bpsCommDestroy(part), bpsSuccess);
}

TEST_F(CudaApi, AllRanksAtOnceAreOnTheListedDevices) {
  const int list[] = {1, 0}, wrong[] = {1, 7};
  bpsComm_t comms[2];
  ASSERT_EQ(bpsCommInitAll(comms, 2, list), bpsSuccess) << bpsGetLastError(nullptr);
  EXPECT_EQ(deviceOf(comms[0]), 1);
  EXPECT_EQ(deviceOf(comms[1]), 0);
  std::jthread other([&] { bpsCommDestroy(comms[1]); });
  bpsCommDestroy(comms[0]);
  other.join();
  EXPECT_EQ(bpsCommInitAll(comms, 2, wrong), bpsInvalidArgument);
  EXPECT_STREQ(bpsGetLastError(nullptr), "bpsCommInitAll: devlist[1] is 7, expected 0 to 4");
}

// At its end, a group issues each of its calls on the stream of the call.
TEST_F(CudaApi, GroupsIssueCallsOfSeveralCommunicators) {
  const cuda::ScopedContext scope(device(0));
  bpsComm_t first = join(), second = join();
  const AppStream streams[2];
  const Bytes content = makeInput(DataType::kFloat32, 5000, 1);
  const Buffer send(Memory::kDevice, content);
  std::vector<std::unique_ptr<Buffer>> recvs;
  for (int i = 0; i < 8; ++i) recvs.push_back(std::make_unique<Buffer>(Memory::kDevice, content.size()));
  const auto calls = fakeCuda().calls("cuMemcpyAsync");
  ASSERT_EQ(bpsGroupStart(), bpsSuccess);
  for (size_t i = 0; i < recvs.size(); ++i)
    ASSERT_EQ(bpsAllReduce(send.get(), recvs[i]->get(), 5000, bpsFloat32, bpsSum, i % 2 == 0 ? first : second,
                           streams[i / 4].get()),
              bpsSuccess);
  EXPECT_EQ(fakeCuda().calls("cuMemcpyAsync"), calls) << "nothing is in the streams yet";
  ASSERT_EQ(bpsGroupEnd(), bpsSuccess) << bpsGetLastError(nullptr);
  for (const AppStream& stream : streams) stream.synchronize();
  for (const auto& recv : recvs) EXPECT_EQ(recv->content(), content);
}

// bps reads a scalar in device memory when the stream reaches the call.
TEST_F(CudaApi, ReadsScalarsInStreamOrder) {
  const cuda::ScopedContext scope(device(0));
  bpsComm_t comm = join();
  const AppStream stream;
  const auto at = [](const Buffer& buffer, size_t i) -> float& { return reinterpret_cast<float*>(buffer.bytes())[i]; };
  for (const Memory kind : {Memory::kDevice, Memory::kPinned, Memory::kPageable}) {
    const Buffer scalar(kind, sizeof(float)), data(Memory::kDevice, 300 * sizeof(float));
    bpsRedOp_t op = bpsSum;
    ASSERT_EQ(bpsRedOpCreatePreMulSum(&op, scalar.get(), bpsFloat32, bpsScalarDevice, comm), bpsSuccess);
    const auto release = stream.hold();
    stream.run([&] {
      at(scalar, 0) = 3;
      for (size_t i = 0; i < 300; ++i) at(data, i) = static_cast<float>(i);
    });
    ASSERT_EQ(bpsAllReduce(data.get(), data.get(), 300, bpsFloat32, op, comm, stream.get()), bpsSuccess);
    stream.run([&] { at(scalar, 0) = 5; });
    ASSERT_EQ(bpsAllReduce(data.get(), data.get(), 300, bpsFloat32, op, comm, stream.get()), bpsSuccess);
    release();
    stream.synchronize();
    EXPECT_EQ(at(data, 7), 7.0F * 3 * 5);
    EXPECT_EQ(at(data, 299), 299.0F * 3 * 5);
    EXPECT_EQ(bpsRedOpDestroy(op, comm), bpsSuccess);
  }
}

// The second call of a group reads the last sums of the first.
TEST_F(CudaApi, CallsOfAGroupSeeTheSumsOfEarlierOnes) {
  constexpr size_t kCount = 300000, kLast = 1000;
  const cuda::ScopedContext scope(device(0));
  bpsComm_t comm = join();
  const AppStream stream;
  const Inputs inputs(DataType::kFloat32, kCount, 1);
  fakeCuda().setCopyRate(1e9);
  const Buffer first(Memory::kDevice, inputs.of[0]), second(Memory::kDevice, kCount * 4);
  const Buffer third(Memory::kDevice, kLast * 4);
  const float* last = static_cast<const float*>(second.get()) + kCount - kLast;
  ASSERT_EQ(bpsGroupStart(), bpsSuccess);
  ASSERT_EQ(bpsAllReduce(first.get(), second.get(), kCount, bpsFloat32, bpsSum, comm, stream.get()), bpsSuccess);
  ASSERT_EQ(bpsAllReduce(last, third.get(), kLast, bpsFloat32, bpsSum, comm, stream.get()), bpsSuccess);
  ASSERT_EQ(bpsGroupEnd(), bpsSuccess);
  stream.synchronize();
  fakeCuda().setCopyRate(0);
  EXPECT_EQ(third.content(), Bytes(inputs.of[0].end() - kLast * 4, inputs.of[0].end()));
}

// A process may use CUDA streams and host streams. The stream NULL means CUDA's default stream if a
// buffer is CUDA memory, and otherwise the default host stream.
TEST_F(CudaApi, HostStreamsStillWork) {
  const cuda::ScopedContext scope(device(0));
  bpsComm_t comm = join();
  std::vector<float> host(1000, 2), out(1000);
  bpsHostStream_t stream = nullptr;
  ASSERT_EQ(bpsHostStreamCreate(&stream), bpsSuccess);
  for (bpsHostStream_t each : {stream, bpsHostStream_t{nullptr}}) {
    std::fill(out.begin(), out.end(), 0);
    ASSERT_EQ(bpsAllReduce(host.data(), out.data(), 1000, bpsFloat32, bpsSum, comm, each), bpsSuccess);
    ASSERT_EQ(bpsHostStreamSynchronize(each), bpsSuccess);
    EXPECT_EQ(out, host);
  }
  EXPECT_EQ(bpsHostStreamDestroy(stream), bpsSuccess);
  const Buffer pinned(Memory::kPinned, 4000);
  const auto waits = fakeCuda().calls("cuStreamWaitValue32_v2");
  ASSERT_EQ(bpsAllReduce(pinned.get(), out.data(), 1000, bpsFloat32, bpsSum, comm, nullptr), bpsSuccess);
  EXPECT_GT(fakeCuda().calls("cuStreamWaitValue32_v2"), waits);
  EXPECT_EQ(api().streamSynchronize(nullptr), cuda::kSuccess);
  EXPECT_EQ(std::memcmp(out.data(), pinned.bytes(), 4000), 0);
}

TEST(CudaDevice, HostOnlyDoesNotTouchTheDriver) {
  const auto inits = fakeCuda().calls("cuInit");
  Env env = testEnv();
  env.device = "host";
  Result<const cuda::Api*> none = cuda::driverForEnv(env);
  ASSERT_TRUE(none.ok());
  EXPECT_EQ(std::move(none).value(), nullptr);
  EXPECT_EQ(fakeCuda().calls("cuInit"), inits);
}

}  // namespace
}  // namespace bps::test
