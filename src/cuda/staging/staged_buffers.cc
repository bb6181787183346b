#include "src/cuda/staging/staged_buffers.h"

#include <algorithm>
#include <thread>

#include "src/base/format.h"
#include "src/base/log.h"
#include "src/base/memory.h"

namespace bps {
namespace {

cuda::Address cudaAddress(const void* pointer) { return reinterpret_cast<cuda::Address>(pointer); }

// How long the end of a communicator waits for copies. A copy normally takes microseconds.
constexpr std::chrono::milliseconds kCopyDrainTimeout(1000);

}  // namespace

Status StagedBuffers::prepare(const cuda::Device& device, const StagingShape& shape) {
  if (ring() != nullptr) return {};
  device_ = &device;
  shape_ = shape;
  shape_.slotBytes = roundUp(shape.slotBytes, kPageBytes);
  auto memory = BPS_TRY(cuda::PinnedMemory::create(device, shape_.slots * 2 * shape_.slotBytes));
  auto out = BPS_TRY(cuda::OwnedStream::create(device));
  auto back = BPS_TRY(cuda::OwnedStream::create(device));
  std::unique_ptr<cuda::GpuMemory> gpu;
  if (gpuRegistrar_ != nullptr) gpu = tryCreateGpuMemory(device, memory.size());
  auto made = std::unique_ptr<Ring>(new Ring{std::move(memory), std::move(gpu), std::move(out), std::move(back), {}});
  made->slots.reserve(shape_.slots);
  for (size_t i = 0; i < shape_.slots; ++i) {
    auto copiedOut = BPS_TRY(cuda::OwnedEvent::create(device));
    made->slots.push_back({std::move(copiedOut), BPS_TRY(cuda::OwnedEvent::create(device))});
  }
  ring_.store(made.release(), std::memory_order_release);
  return {};
}

std::unique_ptr<cuda::GpuMemory> StagedBuffers::tryCreateGpuMemory(const cuda::Device& device, size_t bytes) {
  Result<std::unique_ptr<cuda::GpuMemory>> made = cuda::GpuMemory::create(device, bytes);
  if (made.ok()) return std::move(made).value();
  logInfo(Subsystem::kColl, "GPUDirect RDMA is not used: {}", made.error().message());
  return nullptr;
}

// If a copy may still access the ring's memory, the memory is never freed.
StagedBuffers::~StagedBuffers() {
  std::unique_ptr<Ring> owned(ring());
  if (owned == nullptr || drainCopies(kCopyDrainTimeout)) return;
  logWarn(Subsystem::kColl, "copies of CUDA device {} do not end; their {} bytes of pinned memory are not freed",
          device_->ordinal(), owned->memory.size());
  static_cast<void>(owned.release());
}

void StagedBuffers::submit(Collective& call) {
  if (!call.staged()) return;
  call.firstStaged = count_.submitted;
  count_.submitted += call.chunks.size();
  issueQueue_.push_back(&call);
}

ChunkView StagedBuffers::view(const Collective& call, size_t index) const {
  const ChunkRef& chunk = call.chunks[index];
  const uint64_t number = call.firstStaged + index;
  const uint8_t* source = call.stageSend ? contribution(number) : call.send + chunk.offset;
  uint8_t* target = call.stageRecv ? sum(number) : call.recv + chunk.offset;
  return {source, target, chunk.bytes, call.call, source == target, chunk.onGpu};
}

Result<bool> StagedBuffers::step() {
  if (!failure_.ok()) return failure_.clone();
  if (issueQueue_.empty() && !copying()) return false;
  const cuda::ScopedContext scope(*device_);
  bool moved = false;
  while (!issueQueue_.empty() && !slotOf(count_.issued).inUse) {
    BPS_TRY(copyOut());
    moved = true;
  }
  moved = BPS_TRY(testCopies()) || moved;
  if (moved || !copying()) stallDeadline_ = Deadline::never();
  else if (stallDeadline_.at() == Deadline::never().at()) stallDeadline_ = Deadline::in(shape_.copyTimeout);
  else if (stallDeadline_.passed())
    return failure(Code::kUnhandledCuda,
                   "a copy of CUDA device {} has not ended for {:g} s: the device hangs, or streams that wait for the "
                   "copy occupy all its queues (CUDA_DEVICE_MAX_CONNECTIONS is their number)",
                   device_->ordinal(), std::chrono::duration<double>(shape_.copyTimeout).count());
  return moved;
}

// The CPU of this machine also sums the chunks on the exchange path, so these chunks need host
// memory.
bool StagedBuffers::isNicReachable(const ChunkRef& chunk) {
  if (ring()->gpu == nullptr || chunk.usesExchangePath()) return false;
  if (!nicReachable_) {
    const UniqueFd dmaBuf = ring()->gpu->dmaBuf();
    nicReachable_ = gpuRegistrar_->registerGpuRegion({ring()->gpu->data(), ring()->gpu->size(), dmaBuf.get()});
    if (std::find(nicReachable_->begin(), nicReachable_->end(), true) == nicReachable_->end()) {
      ring()->gpu.reset();
      return false;
    }
  }
  return (*nicReachable_)[chunk.owner] && gpuRegistrar_->carriesGpuMemory(chunk.owner);
}

// Gives the next chunk its slot and starts the copy of its contribution.
Status StagedBuffers::copyOut() {
  Collective& call = *issueQueue_.front();
  ChunkRef& chunk = call.chunks[nextChunk_];
  if (chunk.bytes > shape_.slotBytes)
    return failure(Code::kInternal, "a chunk has {} bytes, but a staging slot has only {}", chunk.bytes,
                   shape_.slotBytes);
  Slot& slot = slotOf(count_.issued);
  const cuda::Api& api = device_->api();
  slot.onGpu = chunk.onGpu = call.stageSend && call.stageRecv && isNicReachable(chunk);
  if (call.stageSend && chunk.bytes > 0)
    BPS_TRY(cuda::check(api,
                        api.memcpyAsync(cudaAddress(contribution(count_.issued)), cudaAddress(call.send + chunk.offset),
                                        chunk.bytes, ring()->out->get()),
                        "cuMemcpyAsync out of the buffer"));
  BPS_TRY(slot.copiedOut.record(*ring()->out));
  slot.inUse = true;
  ++count_.issued;
  if (++nextChunk_ < call.chunks.size()) return {};
  issueQueue_.pop_front();
  nextChunk_ = 0;
  return {};
}

// Tests which copies have ended.
Result<bool> StagedBuffers::testCopies() {
  bool moved = false;
  while (count_.copiedOut < count_.issued && BPS_TRY(slotOf(count_.copiedOut).copiedOut.passed())) {
    ++count_.copiedOut;
    moved = true;
  }
  while (!pendingCopyBacks_.empty() && BPS_TRY(slotOf(pendingCopyBacks_.front().chunk).copiedBack.passed())) {
    finishChunk(*pendingCopyBacks_.front().call, pendingCopyBacks_.front().chunk);
    pendingCopyBacks_.pop_front();
    moved = true;
  }
  return moved;
}

void StagedBuffers::finishChunk(Collective& call, uint64_t chunk) {
  slotOf(chunk).inUse = false;
  --call.remaining;
}

void StagedBuffers::finished(Collective& call, size_t index) {
  if (!call.staged()) {
    --call.remaining;
  } else if (!call.stageRecv || call.chunks[index].bytes == 0) {
    finishChunk(call, call.firstStaged + index);
  } else {
    Status copied = copyBack(call, index);
    if (failure_.ok()) failure_ = std::move(copied);
  }
}

Status StagedBuffers::copyBack(Collective& call, size_t index) {
  const ChunkRef& chunk = call.chunks[index];
  const uint64_t number = call.firstStaged + index;
  const cuda::ScopedContext scope(*device_);
  const cuda::Api& api = device_->api();
  BPS_TRY(cuda::check(api,
                      api.memcpyAsync(cudaAddress(call.recv + chunk.offset), cudaAddress(sum(number)), chunk.bytes,
                                      ring()->back->get()),
                      "cuMemcpyAsync back to the device"));
  BPS_TRY(slotOf(number).copiedBack.record(*ring()->back));
  pendingCopyBacks_.push_back({&call, number});
  return {};
}

void StagedBuffers::abandon() {
  issueQueue_.clear();
  pendingCopyBacks_.clear();
  count_.issued = count_.copiedOut = count_.submitted;
  if (ring() != nullptr && !drainCopies(kCopyDrainTimeout))
    logWarn(Subsystem::kColl, "copies of CUDA device {} do not end; its streams continue without them",
            device_->ordinal());
}

// Returns false if copies are still in flight after the timeout. A failed device copies nothing, so it counts as idle.
bool StagedBuffers::drainCopies(std::chrono::milliseconds timeout) {
  const cuda::ScopedContext scope(*device_);
  const Deadline deadline = Deadline::in(timeout);
  const auto idle = [](const cuda::OwnedStream& stream) {
    Result<bool> outcome = stream.idle();
    return !outcome.ok() || std::move(outcome).value();
  };
  while (!idle(*ring()->out) || !idle(*ring()->back)) {
    if (deadline.passed()) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  return true;
}

}  // namespace bps
