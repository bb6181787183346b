#include "src/comm/device/staged_buffers.h"

#include <algorithm>
#include <thread>

#include "src/base/format.h"
#include "src/base/log.h"
#include "src/base/memory.h"

namespace bps {
namespace {

cuda::Address addressOf(const void* pointer) { return reinterpret_cast<cuda::Address>(pointer); }

// How long the end of a communicator waits for copies, which last microseconds.
constexpr std::chrono::milliseconds kSettlePatience(1000);

}  // namespace

Status StagedBuffers::prepare(const cuda::Device& device, const StagingShape& shape) {
  if (ring() != nullptr) return {};
  device_ = &device;
  shape_ = shape;
  shape_.slotBytes = roundUp(shape.slotBytes, kPageBytes);
  auto memory = BPS_TRY(cuda::PinnedMemory::create(device, shape_.slots * 2 * shape_.slotBytes));
  auto out = BPS_TRY(cuda::OwnStream::create(device));
  auto back = BPS_TRY(cuda::OwnStream::create(device));
  std::unique_ptr<cuda::GpuMemory> gpu;
  if (carrier_ != nullptr) gpu = gpuMemory(device, memory.size());
  auto made = std::unique_ptr<Ring>(new Ring{std::move(memory), std::move(gpu), std::move(out), std::move(back), {}});
  made->slots.reserve(shape_.slots);
  for (size_t i = 0; i < shape_.slots; ++i) {
    auto copiedOut = BPS_TRY(cuda::OwnEvent::create(device));
    made->slots.push_back({std::move(copiedOut), BPS_TRY(cuda::OwnEvent::create(device))});
  }
  ring_.store(made.release(), std::memory_order_release);
  return {};
}

std::unique_ptr<cuda::GpuMemory> StagedBuffers::gpuMemory(const cuda::Device& device, size_t bytes) {
  Result<std::unique_ptr<cuda::GpuMemory>> made = cuda::GpuMemory::create(device, bytes);
  if (made.ok()) return std::move(made).value();
  logInfo(Subsystem::kColl, "GPUDirect RDMA is not used: {}", made.error().message());
  return nullptr;
}

// Memory that a copy may still touch is left to it.
StagedBuffers::~StagedBuffers() {
  std::unique_ptr<Ring> owned(ring());
  if (owned == nullptr || settle(kSettlePatience)) return;
  logWarn(Subsystem::kColl, "copies of CUDA device {} do not end; their {} bytes of pinned memory are left to them",
          device_->ordinal(), owned->memory.size());
  static_cast<void>(owned.release());
}

void StagedBuffers::submit(Collective& call) {
  if (!call.staged()) return;
  call.firstStaged = submitted_;
  submitted_ += call.chunks.size();
  walk_.push_back(&call);
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
  if (walk_.empty() && !copying()) return false;
  const cuda::Scope scope(*device_);
  bool moved = false;
  while (!walk_.empty() && !slotOf(issued_).taken) {
    BPS_TRY(copyOut());
    moved = true;
  }
  moved = BPS_TRY(collect()) || moved;
  if (moved || !copying()) standstill_ = Deadline::never();
  else if (standstill_.at() == Deadline::never().at()) standstill_ = Deadline::in(shape_.patience);
  else if (standstill_.passed())
    return failure(Code::kUnhandledCuda,
                   "a copy of CUDA device {} has not ended for {:g} s: the device hangs, or its queues are taken by "
                   "streams that wait for it (CUDA_DEVICE_MAX_CONNECTIONS is how many there are)",
                   device_->ordinal(), std::chrono::duration<double>(shape_.patience).count());
  return moved;
}

// Direct chunks are summed on this machine too, by its CPU.
bool StagedBuffers::reached(const ChunkRef& chunk) {
  if (ring()->gpu == nullptr || chunk.direct()) return false;
  if (!reached_) {
    const UniqueFd dmaBuf = ring()->gpu->dmaBuf();
    reached_ = carrier_->carryFrom({ring()->gpu->data(), ring()->gpu->size(), dmaBuf.get()});
    if (std::find(reached_->begin(), reached_->end(), true) == reached_->end()) {
      ring()->gpu.reset();
      return false;
    }
  }
  return (*reached_)[chunk.owner];
}

// The next chunk gets its slot, and its contribution is put on its way there.
Status StagedBuffers::copyOut() {
  Collective& call = *walk_.front();
  ChunkRef& chunk = call.chunks[index_];
  if (chunk.bytes > shape_.slotBytes)
    return failure(Code::kInternal, "a chunk of {} bytes for staging slots of {}", chunk.bytes, shape_.slotBytes);
  Slot& slot = slotOf(issued_);
  const cuda::Api& api = device_->api();
  slot.onGpu = chunk.onGpu = call.stageSend && call.stageRecv && reached(chunk);
  if (call.stageSend && chunk.bytes > 0)
    BPS_TRY(cuda::check(api,
                        api.memcpyAsync(addressOf(contribution(issued_)), addressOf(call.send + chunk.offset),
                                        chunk.bytes, ring()->out->get()),
                        "cuMemcpyAsync out of the buffer"));
  BPS_TRY(slot.copiedOut.record(*ring()->out));
  slot.taken = true;
  ++issued_;
  if (++index_ < call.chunks.size()) return {};
  walk_.pop_front();
  index_ = 0;
  return {};
}

// Which copies have ended.
Result<bool> StagedBuffers::collect() {
  bool moved = false;
  while (copiedOut_ < issued_ && BPS_TRY(slotOf(copiedOut_).copiedOut.passed())) {
    ++copiedOut_;
    moved = true;
  }
  while (!returning_.empty() && BPS_TRY(slotOf(returning_.front().chunk).copiedBack.passed())) {
    finishChunk(*returning_.front().call, returning_.front().chunk);
    returning_.pop_front();
    moved = true;
  }
  return moved;
}

void StagedBuffers::finishChunk(Collective& call, uint64_t chunk) {
  slotOf(chunk).taken = false;
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
  const cuda::Scope scope(*device_);
  const cuda::Api& api = device_->api();
  BPS_TRY(cuda::check(
      api,
      api.memcpyAsync(addressOf(call.recv + chunk.offset), addressOf(sum(number)), chunk.bytes, ring()->back->get()),
      "cuMemcpyAsync back to the device"));
  BPS_TRY(slotOf(number).copiedBack.record(*ring()->back));
  returning_.push_back({&call, number});
  return {};
}

void StagedBuffers::abandon() {
  walk_.clear();
  returning_.clear();
  issued_ = copiedOut_ = submitted_;
  if (ring() != nullptr && !settle(kSettlePatience))
    logWarn(Subsystem::kColl, "copies of CUDA device {} do not end; its streams go on without them",
            device_->ordinal());
}

// A device that has failed copies nothing any more.
bool StagedBuffers::settle(std::chrono::milliseconds patience) {
  const cuda::Scope scope(*device_);
  const Deadline deadline = Deadline::in(patience);
  const auto idle = [](const cuda::OwnStream& stream) {
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
