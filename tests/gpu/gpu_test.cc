// Tests all-reduce on a CUDA device. The ranks are threads of this process, and each rank acts as a machine. This test
// calls only functions that CUDA has, so it runs on a real device and on the fake driver.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <tuple>

#include "src/cuda/staging/cuda_backend.h"
#include "tests/support/cluster.h"
#include "tests/support/data.h"

namespace bps::test {
namespace {

const cuda::Device& gpu() {
  static const cuda::Device* device = [] {
    Result<const cuda::Api*> api = cuda::driver();
    if (!api.ok()) throw std::runtime_error(api.error().message());
    Result<cuda::Device*> opened = cuda::Device::open(*std::move(api).value(), 0);
    if (!opened.ok()) throw std::runtime_error(opened.error().message());
    return std::move(opened).value();
  }();
  return *device;
}

Status check(int error, const char* what) { return cuda::check(gpu().api(), error, what); }

class Memory {
 public:
  explicit Memory(size_t bytes) {
    EXPECT_EQ(gpu().api().memAlloc(&address_, std::max<size_t>(bytes, 1)), cuda::kSuccess);
  }
  Memory(const Memory&) = delete;
  ~Memory() { gpu().api().memFree(address_); }
  cuda::Address address() const { return address_; }
  void* get() const { return reinterpret_cast<void*>(address_); }

 private:
  cuda::Address address_ = 0;
};

class Pinned {
 public:
  explicit Pinned(size_t bytes) : memory_(std::move(cuda::PinnedMemory::create(gpu(), std::max<size_t>(bytes, 1)))) {
    EXPECT_STREQ(memory_.error().message(), "");
    data_.emplace(std::move(memory_).value());
  }
  explicit Pinned(const Bytes& content) : Pinned(content.size()) {
    if (!content.empty()) std::memcpy(data(), content.data(), content.size());
  }
  uint8_t* data() const { return data_->data(); }
  cuda::Address address() const { return reinterpret_cast<cuda::Address>(data_->data()); }

 private:
  Result<cuda::PinnedMemory> memory_;
  std::optional<cuda::PinnedMemory> data_;
};

class Stream {
 public:
  Stream() { EXPECT_EQ(gpu().api().streamCreateWithPriority(&stream_, 0, 0), cuda::kSuccess); }
  Stream(const Stream&) = delete;
  ~Stream() { gpu().api().streamDestroy(stream_); }
  cuda::Stream get() const { return stream_; }
  Status copy(cuda::Address to, cuda::Address from, size_t bytes) const {
    return bytes == 0 ? Status() : check(gpu().api().memcpyAsync(to, from, bytes, stream_), "cuMemcpyAsync");
  }
  Status synchronize() const { return check(gpu().api().streamSynchronize(stream_), "cuStreamSynchronize"); }

 private:
  cuda::Stream stream_ = nullptr;
};

AllReduceCall onStream(const Stream& stream, const void* send, void* recv, size_t count, DataType type) {
  AllReduceCall call;
  call.send = send;
  call.recv = recv;
  call.count = count;
  call.type = type;
  call.handle = stream.get();
  return call;
}

std::string onRanks(size_t ranks, const Body& body, size_t servers = 0) {
  const Servers cluster(servers);
  Job job;
  job.ranks = ranks;
  job.servers = cluster.list();
  job.env.device = "cuda";
  job.limit = std::chrono::seconds(120);
  return failures(runRanks(job, [&](Communicator& comm) -> Status {
    const cuda::ScopedContext scope(gpu());
    return body(comm);
  }));
}

// Issues the input copy, the all-reduce and the output copy on one stream, without a wait between them.
Status throughDevice(Communicator& comm, const Bytes& input, size_t count, DataType type, Bytes& output) {
  const Stream stream;
  const Pinned in(input), out(input.size());
  const Memory send(input.size()), recv(input.size());
  BPS_TRY(stream.copy(send.address(), in.address(), input.size()));
  BPS_TRY(comm.allReduce(onStream(stream, send.get(), recv.get(), count, type)));
  BPS_TRY(stream.copy(out.address(), recv.address(), input.size()));
  BPS_TRY(stream.synchronize());
  output.assign(out.data(), out.data() + input.size());
  return comm.failure();
}

TEST(Gpu, GivesTheSameBitsAsOnTheHost) {
  struct Case {
    DataType type;
    size_t count;
  };
  std::vector<Case> cases;
  for (const size_t count : {0U, 1U, 1000U, 65535U, 65536U, 65537U, 3000001U})
    cases.push_back({DataType::kFloat32, count});
  for (const DataType type : {DataType::kInt8, DataType::kUint64, DataType::kFloat16, DataType::kBfloat16,
                              DataType::kFloat64, DataType::kFloat8e5m2})
    cases.push_back({type, 200003});
  for (const size_t servers : {0U, 2U})
    EXPECT_EQ(onRanks(
                  2,
                  [&](Communicator& comm) -> Status {
                    for (const Case& c : cases) {
                      const Bytes input = makeInput(c.type, c.count, comm.rank());
                      Bytes onHost(input.size()), onDevice;
                      AllReduceCall call{input.data(), onHost.data(), c.count, c.type};
                      call.stream = HostStream::create();
                      BPS_TRY(comm.allReduce(call));
                      BPS_TRY(call.stream->synchronize());
                      HostStream::destroy(call.stream.get());
                      BPS_TRY(throughDevice(comm, input, c.count, c.type, onDevice));
                      if (onHost != onDevice)
                        return {Code::kInternal, std::string("other bits: ") + dataTypeName(c.type).data()};
                    }
                    return {};
                  },
                  servers),
              "");
}

// Uses more streams than the device has queues, with work before and after the call on each stream. The test has only
// one rank. With two ranks on one device, the work of one rank could be queued behind the wait of the other rank. Real
// jobs have one device per rank.
TEST(Gpu, CompletesCallsOnManyStreams) {
  constexpr size_t kStreams = 40, kCount = 100000, kBytes = kCount * 4;
  const Bytes input = makeInput(DataType::kFloat32, kCount, 0);
  EXPECT_EQ(onRanks(1,
                    [&](Communicator& comm) -> Status {
                      const Pinned in(input);
                      std::vector<std::unique_ptr<Stream>> streams;
                      std::vector<std::unique_ptr<Memory>> buffers;
                      std::vector<std::unique_ptr<Pinned>> outs;
                      for (size_t i = 0; i < kStreams; ++i) {
                        streams.push_back(std::make_unique<Stream>());
                        buffers.push_back(std::make_unique<Memory>(kBytes));
                        outs.push_back(std::make_unique<Pinned>(kBytes));
                      }
                      for (size_t i = 0; i < kStreams; ++i) {
                        BPS_TRY(streams[i]->copy(buffers[i]->address(), in.address(), kBytes));
                        void* buffer = buffers[i]->get();
                        BPS_TRY(comm.allReduce(onStream(*streams[i], buffer, buffer, kCount, DataType::kFloat32)));
                        BPS_TRY(streams[i]->copy(outs[i]->address(), buffers[i]->address(), kBytes));
                      }
                      for (const auto& stream : streams) BPS_TRY(stream->synchronize());
                      for (const auto& out : outs)
                        if (std::memcmp(out->data(), input.data(), kBytes) != 0) return {Code::kInternal, "wrong"};
                      return comm.failure();
                    }),
            "");
}

// Rank 1 never calls, so the stream of rank 0 blocks on the device until the communicator is aborted.
TEST(Gpu, AbortReleasesTheStream) {
  std::atomic<int> passed{0};
  onRanks(2, [&](Communicator& comm) -> Status {
    const Stream stream;
    const Memory buffer(4000);
    // If the abort of rank 1 arrives before this call, the call fails.
    if (comm.rank() == 0)
      std::ignore = comm.allReduce(onStream(stream, buffer.get(), buffer.get(), 1000, DataType::kFloat32));
    comm.abort();
    comm.releaseFailedStreams();
    BPS_TRY(stream.synchronize());
    ++passed;
    return {};
  });
  EXPECT_EQ(passed, 2);
}

}  // namespace
}  // namespace bps::test
