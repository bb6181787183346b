#include "src/cuda/staging/cuda_backend.h"

#include "src/base/format.h"
#include "src/cuda/stream_order.h"

namespace bps {
namespace {

class CudaStreamPosition final : public StreamPosition {
 public:
  CudaStreamPosition(std::shared_ptr<cuda::StreamGate> gate, std::shared_ptr<FailedGates> failed)
      : gate_(std::move(gate)), failed_(std::move(failed)) {}
  bool mayStart() const override { return gate_->reached(); }
  // Opens or keeps the gate only. The communicator reports the failure itself to the application.
  void complete(const Status& outcome) override {
    if (outcome.ok()) gate_->open();
    else failed_->add(gate_);
  }

 private:
  std::shared_ptr<cuda::StreamGate> gate_;
  std::shared_ptr<FailedGates> failed_;
};

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

Status CudaBackend::open() {
  if (gates_ != nullptr) return {};
  device_ = BPS_TRY(cuda::Device::open(api_, ordinal_));
  gates_ = BPS_TRY(cuda::StreamGates::create(*device_, bell_));
  return {};
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

Status CudaBackend::checkDevice(const cuda::MemoryKind& memory, const char* name) const {
  if (!memory.staged || memory.device < 0 || memory.device == ordinal_) return {};
  return failure(Code::kInvalidArgument, "{} lies on CUDA device {}, the communicator's is {}", name, memory.device,
                 ordinal_);
}

Result<bool> CudaBackend::holds(const AllReduceCall& call) {
  const bool isHostStream = call.stream != nullptr && call.handle != nullptr;
  if (isHostStream || call.count == 0) return false;
  if (device_ == nullptr && !cuda::Device::hasActiveContext(api_, ordinal_)) return false;
  BPS_TRY(open());
  const BufferKinds buffers = BPS_TRY(classifyBuffers(call));
  if (!buffers.send.staged || !buffers.recv.staged) return false;
  BPS_TRY(checkDevice(buffers.send, "sendbuff"));
  BPS_TRY(checkDevice(buffers.recv, "recvbuff"));
  auto* const stream = static_cast<cuda::Stream>(const_cast<void*>(call.handle));
  const cuda::ScopedContext scope(api_, BPS_TRY(cuda::contextOf(*device_, stream)));
  BPS_TRY(gates_->checkNotCaptured(stream));
  return true;
}

Result<CudaBackend::Position> CudaBackend::enter(const AllReduceCall& call, Collective& collective) {
  const bool isCudaStream = call.stream == nullptr;
  if (!isCudaStream && device_ == nullptr && !cuda::Device::hasActiveContext(api_, ordinal_)) return Position();
  BPS_TRY(open());
  const BufferKinds buffers = BPS_TRY(classifyBuffers(call));
  const bool staged = buffers.send.staged || buffers.recv.staged;
  if (!isCudaStream) {
    const bool isHostStream = call.handle != nullptr;
    if (isHostStream && staged)
      return failure(Code::kInvalidUsage, "{} is memory of a CUDA device, and stream {} a host stream",
                     buffers.send.staged ? "sendbuff" : "recvbuff", call.handle);
    if (isHostStream || !(buffers.send.knownToCuda || buffers.recv.knownToCuda)) return Position();
  }
  BPS_TRY(checkDevice(buffers.send, "sendbuff"));
  BPS_TRY(checkDevice(buffers.recv, "recvbuff"));
  if (staged) BPS_TRY(buffers_.prepare(*device_, stagingShape_));

  const void* fetched = buffers.scalar.staged ? call.deviceScalar : nullptr;
  const std::shared_ptr<cuda::StreamGate> gate = BPS_TRY(
      gates_->enter(static_cast<cuda::Stream>(const_cast<void*>(call.handle)), fetched, elementBytes(call.type)));
  collective.send = static_cast<const uint8_t*>(buffers.send.address);
  collective.recv = static_cast<uint8_t*>(const_cast<void*>(buffers.recv.address));
  collective.stageSend = buffers.send.staged;
  collective.stageRecv = buffers.recv.staged;
  if (fetched != nullptr) collective.deviceScalar = gate->scalar();
  return Position(std::make_shared<CudaStreamPosition>(gate, failed_));
}

}  // namespace bps
