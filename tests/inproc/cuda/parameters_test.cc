// Parameters of asynchronous training in memory of a CUDA device, with a fake driver.
#include <gtest/gtest.h>

#include <cstring>
#include <thread>

#include "tests/inproc/fake_cuda_harness.h"
#include "tests/inproc/parameters/param_calls.h"

namespace bps::test {
namespace {

constexpr Parameter kCounters{1, DataType::kInt64, 300000};

Status push(ParamGroup& group, const AppStream& stream, CallOp op, const Buffer& change, const Buffer& latest) {
  AllReduceCall call = request(op, kCounters, change.get(), latest.get());
  call.handle = stream.get();
  return group.request(kCounters.key, call);
}

int64_t elementOf(const Buffer& buffer, size_t index) {
  int64_t value = 0;
  std::memcpy(&value, buffer.bytes() + index * sizeof value, sizeof value);
  return value;
}

void fill(const Buffer& buffer, int64_t value) {
  for (size_t i = 0; i < kCounters.count; ++i) std::memcpy(buffer.bytes() + i * sizeof value, &value, sizeof value);
}

// Each change is computed by a kernel just before its push, and overwritten just after it. Rank r adds r + 1.
TEST(CudaParameters, KeepTheOrderOfTheirStream) {
  constexpr int kSteps = 8;
  for (const Memory kind : {Memory::kDevice, Memory::kPinned}) {
    for (const size_t k : {0U, 2U}) {
      const Servers servers(k, cudaEnv());
      Job job;
      job.ranks = 3;
      job.servers = servers.list();
      job.env = cudaEnv();
      EXPECT_EQ(failures(runRanks(job,
                                  [&](Communicator& comm) -> Status {
                                    const cuda::ScopedContext scope(device(comm.device().value_or(0)));
                                    const AppStream stream;
                                    auto group = BPS_TRY(ParamGroup::create(comm));
                                    BPS_TRY(group->start(comm));
                                    const size_t bytes = kCounters.count * sizeof(int64_t);
                                    const Buffer change(kind, bytes), latest(kind, bytes);
                                    fill(latest, comm.rank() == 0 ? 1000 : -1);
                                    BPS_TRY(group->init(kCounters.key, latest.get(), kCounters.count, kCounters.type));
                                    EXPECT_EQ(elementOf(latest, 0), 1000);
                                    EXPECT_EQ(elementOf(latest, kCounters.count - 1), 1000);
                                    for (int step = 1; step <= kSteps; ++step) {
                                      stream.run([&] { fill(change, comm.rank() + 1); });
                                      const CallOp op = step % 2 == 0 ? CallOp::kParamPush : CallOp::kParamPushPull;
                                      BPS_TRY(push(*group, stream, op, change, latest));
                                      stream.run([&] {
                                        EXPECT_EQ(elementOf(change, kCounters.count / 2), comm.rank() + 1)
                                            << "a push writes its change";
                                        fill(change, 1 << 20);
                                      });
                                      if (step % 2 == 0)
                                        BPS_TRY(push(*group, stream, CallOp::kParamPull, change, latest));
                                      stream.run([&latest, step, rank = comm.rank()] {
                                        EXPECT_GE(elementOf(latest, 5), 1000 + int64_t{step} * (rank + 1));
                                      });
                                    }
                                    stream.synchronize();
                                    BPS_TRY(group->barrier());
                                    BPS_TRY(push(*group, stream, CallOp::kParamPull, change, latest));
                                    stream.synchronize();
                                    for (const size_t i : {size_t{0}, kCounters.count / 3, kCounters.count - 1})
                                      EXPECT_EQ(elementOf(latest, i), 1000 + kSteps * (1 + 2 + 3));
                                    return group->finish();
                                  })),
                "");
    }
  }
}

}  // namespace
}  // namespace bps::test
