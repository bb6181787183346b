#include "src/cuda/staging/cuda_backend.h"

#include <algorithm>
#include <utility>

#include "src/base/format.h"
#include "src/base/poll_until.h"
#include "src/cuda/stream_order.h"

namespace bps {
namespace {

// The application's stream waits for the copies of the call, so nothing is to be done when the call has ended. After a
// failure the stream stands until releaseFailedStreams().
class CudaStreamPosition final : public StreamPosition {
 public:
  CudaStreamPosition(const cuda::CopyQueue& queue, uint64_t firstSegment)
      : queue_(queue), firstSegment_(firstSegment) {}
  bool mayStart() const override { return queue_.copiedOut(firstSegment_); }
  void complete(const Status&) override {}

 private:
  const cuda::CopyQueue& queue_;
  const uint64_t firstSegment_;
};

cuda::Stream streamOf(const AllReduceCall& call) { return static_cast<cuda::Stream>(const_cast<void*>(call.handle)); }

}  // namespace

Result<int> CudaBackend::devices(const Env& env) {
  const cuda::Api* api = BPS_TRY(cuda::driverForEnv(env));
  return api != nullptr ? cuda::Device::count(*api) : Result<int>(0);
}

Result<std::unique_ptr<CudaBackend>> CudaBackend::create(const Env& env, int ordinal) {
  const cuda::Api* api = BPS_TRY(cuda::driverForEnv(env));
  if (api == nullptr) return std::unique_ptr<CudaBackend>();
  const int devices = BPS_TRY(cuda::Device::count(*api));
  if (ordinal >= devices)
    return failure(Code::kInvalidArgument, "device {}: this process sees {} CUDA devices", ordinal, devices);
  if (ordinal < 0) ordinal = BPS_TRY(cuda::Device::current(*api));
  return std::unique_ptr<CudaBackend>(new CudaBackend(*api, ordinal));
}

CudaBackend::~CudaBackend() {
  if (cuda::CopyQueue* queue = queue_.load()) cuda::CopyQueue::recycle(queue);
}

Status CudaBackend::open() {
  if (device_ != nullptr) return {};
  cuda::Device* device = BPS_TRY(cuda::Device::open(api_, ordinal_));
  BPS_TRY(device->checkStreamMemOps());
  cuda::CopyQueue* queue = BPS_TRY(cuda::CopyQueue::take(*device, buffers_.usesGpuMemory()));
  buffers_.setQueue(*queue);
  queue_.store(queue);
  device_ = device;
  return {};
}

Status CudaBackend::checkStream(cuda::Stream stream) const {
  const cuda::ScopedContext scope(api_, BPS_TRY(cuda::contextOf(*device_, stream)));
  int status = cuda::kNotCapturing;
  const int error = api_.streamIsCapturing(stream, &status);
  if (error == cuda::kCaptureImplicit || (error == cuda::kSuccess && status != cuda::kNotCapturing))
    return failure(Code::kInvalidUsage,
                   "stream {} is being captured into a graph; bps cannot take part in graphs, call it outside",
                   static_cast<const void*>(stream));
  return check(api_, error, "cuStreamIsCapturing");
}

Result<CudaBackend::BufferKinds> CudaBackend::classifyBuffers(const AllReduceCall& call) const {
  const cuda::ScopedContext scope(*device_);
  BufferKinds buffers;
  buffers.send.address = call.send;
  buffers.recv.address = call.recv;
  if (call.count > 0) {
    buffers.send = BPS_TRY(cuda::memoryKindOf(*device_, call.send));
    buffers.recv = BPS_TRY(cuda::memoryKindOf(*device_, call.recv));
  }
  if (call.deviceScalar != nullptr) buffers.scalar = BPS_TRY(cuda::memoryKindOf(*device_, call.deviceScalar));
  return buffers;
}

Result<bool> CudaBackend::holds(const AllReduceCall& call) {
  const bool isHostStream = call.stream != nullptr && call.handle != nullptr;
  if (isHostStream || call.count == 0) return false;
  if (device_ == nullptr && !cuda::Device::hasActiveContext(api_, ordinal_)) return false;
  BPS_TRY(open());
  const BufferKinds buffers = BPS_TRY(classifyBuffers(call));
  if (!buffers.send.staged || !buffers.recv.staged) return false;
  BPS_TRY(checkStream(streamOf(call)));
  return true;
}

Result<bool> CudaBackend::prepare(const AllReduceCall& call, Collective& collective) {
  const bool isCudaStream = call.stream == nullptr;
  if (!isCudaStream && device_ == nullptr && !cuda::Device::hasActiveContext(api_, ordinal_)) return false;
  BPS_TRY(open());
  const BufferKinds buffers = BPS_TRY(classifyBuffers(call));
  const bool staged = buffers.send.staged || buffers.recv.staged;
  if (!isCudaStream) {
    const bool isHostStream = call.handle != nullptr;
    if (isHostStream && staged)
      return failure(Code::kInvalidUsage, "{} is memory of a CUDA device, and stream {} a host stream",
                     buffers.send.staged ? "sendbuff" : "recvbuff", call.handle);
    if (isHostStream || !(buffers.send.knownToCuda || buffers.recv.knownToCuda)) return false;
  }
  BPS_TRY(checkStream(streamOf(call)));
  collective.send = static_cast<const uint8_t*>(buffers.send.address);
  collective.recv = static_cast<uint8_t*>(const_cast<void*>(buffers.recv.address));
  collective.stageSend = buffers.send.staged && carriesContribution(call.op);
  collective.stageRecv = buffers.recv.staged && writesTarget(call.op);
  collective.stageScalar = buffers.scalar.staged;
  collective.deviceScalar = buffers.scalar.address;
  return true;
}

Result<cuda::CopyQueue::PlacedCall> CudaBackend::place(const AllReduceCall& call, Collective& collective) {
  cuda::CopyQueue& queue = *queue_.load();
  cuda::CopyQueue::Buffers copied;
  if (collective.stageSend) copied.send = collective.send;
  if (collective.stageRecv) copied.recv = collective.recv;
  if (collective.stageScalar) copied.scalar = collective.deviceScalar;
  copied.scalarBytes = elementBytes(call.type);
  if (collective.stageSend && collective.stageRecv) buffers_.placeOnGpu(collective.chunks);
  auto placed = BPS_TRY(queue.place(copied, collective.chunks));
  collective.staging = placed.staged;
  if (placed.staged->scalar != nullptr) collective.deviceScalar = placed.staged->scalar;
  collective.position = std::make_shared<CudaStreamPosition>(queue, placed.staged->firstSegment);
  return placed;
}

Status CudaBackend::enqueue(const AllReduceCall& call, const cuda::CopyQueue::PlacedCall& placed) {
  cuda::CopyQueue& queue = *queue_.load();
  const cuda::Stream stream = streamOf(call);
  if (group_.open && group_.depends(call.buffers())) {  // the call comes after the earlier ones
    BPS_TRY(endGroup());
    beginGroup();
  }
  std::vector<cuda::Stream>& grouped = group_.streams;
  if (std::find(grouped.begin(), grouped.end(), stream) == grouped.end()) {
    BPS_TRY(queue.follow(stream));
    if (group_.open) grouped.push_back(stream);
  }
  if (group_.open) group_.buffers.push_back(call.buffers());
  BPS_TRY(queue.enqueue(placed));
  return group_.open ? Status() : queue.lead(stream);
}

bool CudaBackend::Group::depends(const CallBuffers& call) const {
  return std::any_of(buffers.begin(), buffers.end(),
                     [&](const CallBuffers& earlier) { return call.conflicts(earlier); });
}

Status CudaBackend::endGroup() {
  const Group group = std::exchange(group_, {});
  Status first;
  for (const cuda::Stream stream : group.streams) {
    Status led = queue_.load()->lead(stream);
    if (first.ok()) first = std::move(led);
  }
  return first;
}

bool CudaBackend::idle() const {
  const cuda::CopyQueue* queue = queue_.load();
  return queue == nullptr || queue->idle();
}

void CudaBackend::waitForCopies(Deadline deadline) const {
  pollUntil([this] { return idle(); }, deadline);
}

void CudaBackend::releaseFailedStreams() const {
  constexpr std::chrono::seconds kMaxCopyTime(2);
  cuda::CopyQueue* queue = queue_.load();
  if (queue == nullptr) return;
  queue->release();
  pollUntil([queue] { return queue->reachedCallsEnded(); }, Deadline::in(kMaxCopyTime));
}

}  // namespace bps
