// The rule for GPU memory. The rule is skipped if the plugin does not support GPU memory or the
// machine has no GPU.
#include "src/cuda/driver.h"
#include "src/cuda/memory/gpu_memory.h"
#include "tools/net_plugin_check/flow.h"
#include "tools/net_plugin_check/rules/rules.h"

namespace bps::check {
namespace {

constexpr size_t kBytes = size_t{1} << 20;

// GPU memory that is registered with a connection. A GpuBuffer sends from this memory and receives
// into this memory.
class GpuBuffer {
 public:
  static Result<std::unique_ptr<GpuBuffer>> create(Side& side, void* comm, const cuda::Device& device) {
    std::unique_ptr<GpuBuffer> made(new GpuBuffer(side, comm, device));
    made->memory_ = BPS_TRY(cuda::GpuMemory::create(device, kBytes));
    made->stream_ = BPS_TRY(cuda::OwnedStream::create(device));
    made->host_.resize(kBytes);
    return made;
  }

  // Registers the memory as NCCL does: as a dma-buf if the plugin and the driver support that, and
  // otherwise by address. The returned text says which registration was used.
  Result<std::string> registerMemory(int ptrSupport) {
    UniqueFd dmaBuf;
    if ((ptrSupport & abi::kPtrDmaBuf) != 0 && side_.table().canRegisterDmaBuf()) dmaBuf = memory_->dmaBuf();
    if (!dmaBuf && (ptrSupport & abi::kPtrCuda) == 0)
      return skipped("ptrSupport has DMABUF without CUDA, and the CUDA driver exports no dma-buf");
    const MessageBuffer all{memory_->data(), memory_->size(), 0, nullptr};
    BPS_TRY(side_.expect(side_.table().regGpuMr(comm_, all, dmaBuf.get(), &handle_), Call::kRegMr));
    return std::string(dmaBuf ? "as a dma-buf" : "by address");
  }
  Status deregisterMemory() { return side_.expect(side_.table().deregMr(comm_, handle_), Call::kDeregMr); }

  Status send(size_t bytes) {
    fillPattern(host_.data(), bytes, bytes);
    BPS_TRY(copy(memory_->data(), host_.data(), bytes));
    void* request = nullptr;
    BPS_TRY(post(
        Call::kIsend, [&] { return side_.table().isend(comm_, piece(bytes), &request); }, request));
    return finish("the message is", request, bytes);
  }

  Status receive(size_t bytes) {
    std::fill(host_.begin(), host_.end(), uint8_t{0});
    BPS_TRY(copy(memory_->data(), host_.data(), kBytes));
    void* request = nullptr;
    const MessageBuffer place = piece(bytes);
    BPS_TRY(post(
        Call::kIrecv,
        [&] {
          return side_.table().irecv(comm_, {&place, 1}, &request);
        },
        request));
    BPS_TRY(finish("the message is", request, bytes));
    request = nullptr;
    BPS_TRY(side_.expect(side_.table().iflush(comm_, place, &request), Call::kIflush));
    if (request != nullptr) BPS_TRY(side_.waitForRequest("the flush is", request));
    BPS_TRY(copy(host_.data(), memory_->data(), kBytes));
    if (!hasPattern(host_.data(), bytes, bytes))
      return failure(Code::kInternal, "a message of {} bytes arrived in GPU memory with wrong data", bytes);
    if (std::any_of(host_.begin() + static_cast<std::ptrdiff_t>(bytes), host_.end(), [](uint8_t b) { return b != 0; }))
      return failure(Code::kInternal, "GPU memory after a message of {} bytes was written", bytes);
    return {};
  }

 private:
  GpuBuffer(Side& side, void* comm, const cuda::Device& device) : side_(side), comm_(comm), device_(device) {}

  MessageBuffer piece(size_t bytes) const { return {memory_->data(), bytes, 1, handle_}; }

  Status post(Call call, const std::function<int()>& poster, void* const& request) {
    return side_.wait(fmt::format("{} is", nameOf(call)), [&]() -> Result<Progress> {
      BPS_TRY(side_.expect(poster(), call));
      return request != nullptr ? Progress::kDone : Progress::kPending;
    });
  }
  Status finish(const char* what, void* request, size_t bytes) {
    int came = static_cast<int>(bytes);
    BPS_TRY(side_.waitForRequest(what, request, &came));
    if (static_cast<size_t>(came) == bytes) return {};
    return failure(Code::kInternal, "test reported {} bytes for a message of {}", came, bytes);
  }
  Status copy(const void* to, const void* from, size_t bytes) {
    const cuda::ScopedContext scope(device_);
    const cuda::Api& api = device_.api();
    const auto address = [](const void* at) { return reinterpret_cast<cuda::Address>(at); };
    BPS_TRY(cuda::check(api, api.memcpyAsync(address(to), address(from), bytes, stream_->get()), "cuMemcpyAsync"));
    return cuda::check(api, api.streamSynchronize(stream_->get()), "cuStreamSynchronize");
  }

  Side& side_;
  void* comm_;
  const cuda::Device& device_;
  std::unique_ptr<cuda::GpuMemory> memory_;
  std::unique_ptr<cuda::OwnedStream> stream_;
  std::vector<uint8_t> host_;
  void* handle_ = nullptr;
};

Result<std::string> gpuMemory(Side& side) {
  const DeviceProperties device = BPS_TRY(side.deviceProperties());
  if (device.ptrSupport == abi::kPtrHost) return skipped("ptrSupport has host memory only");
  Result<const cuda::Api*> driver = cuda::driver();
  if (!driver.ok()) return skipped(driver.error().message());
  cuda::Device* gpu = BPS_TRY(cuda::Device::open(*std::move(driver).value(), 0));
  void* comm = BPS_TRY(side.connectOne());
  std::unique_ptr<GpuBuffer> buffer = BPS_TRY(GpuBuffer::create(side, comm, *gpu));
  std::string way = BPS_TRY(buffer->registerMemory(device.ptrSupport));
  for (const size_t bytes : {size_t{1}, size_t{64}, size_t{4097}, kBytes})
    BPS_TRY(side.sends() ? buffer->send(bytes) : buffer->receive(bytes));
  BPS_TRY(side.barrier());
  BPS_TRY(buffer->deregisterMemory());
  BPS_TRY(side.close(comm));
  return way;
}

constexpr std::array<Rule, 1> kGpuRules{
    {{"gpu-memory", "messages from and into GPU memory, with flush, if ptrSupport has it and there is a GPU",
      gpuMemory}}};

}  // namespace

std::span<const Rule> gpuRules() { return kGpuRules; }

}  // namespace bps::check
