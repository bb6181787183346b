#include "src/comm/device/cuda_side.h"

#include "src/base/format.h"
#include "src/device/stream_order.h"

namespace bps {
namespace {

class CudaPlace final : public StreamPlace {
 public:
  CudaPlace(std::shared_ptr<cuda::StreamGate> gate, std::shared_ptr<FailedGates> failed)
      : gate_(std::move(gate)), failed_(std::move(failed)) {}
  bool mayStart() const override { return gate_->reached(); }
  // The failure itself is the communicator's, see failure().
  void complete(const Status& outcome) override {
    if (outcome.ok()) gate_->open();
    else failed_->add(gate_);
  }

 private:
  std::shared_ptr<cuda::StreamGate> gate_;
  std::shared_ptr<FailedGates> failed_;
};

}  // namespace

Result<int> CudaSide::devices(const Env& env) {
  const cuda::Api* api = BPS_TRY(cuda::driverInUse(env));
  return api != nullptr ? cuda::Device::count(*api) : Result<int>(0);
}

Result<std::unique_ptr<CudaSide>> CudaSide::create(const Env& env, int ordinal) {
  const cuda::Api* api = BPS_TRY(cuda::driverInUse(env));
  if (api == nullptr) return std::unique_ptr<CudaSide>();
  const int devices = BPS_TRY(cuda::Device::count(*api));
  if (ordinal >= devices)
    return failure(Code::kInvalidArgument, "device {}: this process sees {} CUDA devices", ordinal, devices);
  if (ordinal < 0) ordinal = BPS_TRY(cuda::Device::current(*api));
  return std::unique_ptr<CudaSide>(new CudaSide(*api, ordinal));
}

Status CudaSide::open() {
  if (gates_ != nullptr) return {};
  device_ = BPS_TRY(cuda::Device::open(api_, ordinal_));
  gates_ = BPS_TRY(cuda::StreamGates::create(*device_, settings_.bell));
  return {};
}

Result<CudaSide::Buffers> CudaSide::examine(const AllReduceCall& call) const {
  const cuda::Scope scope(*device_);
  Buffers buffers;
  buffers.send.address = call.send;
  buffers.recv.address = call.recv;
  if (call.count > 0) {
    buffers.send = BPS_TRY(cuda::kindOf(*device_, call.send));
    buffers.recv = BPS_TRY(cuda::kindOf(*device_, call.recv));
  }
  if (call.deviceScalar != nullptr) buffers.scalar = BPS_TRY(cuda::kindOf(*device_, call.deviceScalar));
  return buffers;
}

Status CudaSide::checkDevice(const cuda::MemoryKind& memory, const char* name) const {
  if (!memory.staged || memory.device < 0 || memory.device == ordinal_) return {};
  return failure(Code::kInvalidArgument, "{} lies on CUDA device {}, the communicator's is {}", name, memory.device,
                 ordinal_);
}

Result<bool> CudaSide::holds(const AllReduceCall& call) {
  const bool isHostStream = call.stream != nullptr && call.handle != nullptr;
  if (isHostStream || call.count == 0) return false;
  if (device_ == nullptr && !cuda::Device::inUse(api_, ordinal_)) return false;
  BPS_TRY(open());
  const Buffers buffers = BPS_TRY(examine(call));
  if (!buffers.send.staged || !buffers.recv.staged) return false;
  BPS_TRY(checkDevice(buffers.send, "sendbuff"));
  BPS_TRY(checkDevice(buffers.recv, "recvbuff"));
  auto* const stream = static_cast<cuda::Stream>(const_cast<void*>(call.handle));
  const cuda::Scope scope(api_, BPS_TRY(cuda::contextOf(*device_, stream)));
  BPS_TRY(gates_->checkNotCaptured(stream));
  return true;
}

Result<CudaSide::Place> CudaSide::enter(const AllReduceCall& call, Collective& collective) {
  const bool isCudaStream = call.stream == nullptr;
  if (!isCudaStream && device_ == nullptr && !cuda::Device::inUse(api_, ordinal_)) return Place();
  BPS_TRY(open());
  const Buffers buffers = BPS_TRY(examine(call));
  const bool staged = buffers.send.staged || buffers.recv.staged;
  if (!isCudaStream) {
    const bool isHostStream = call.handle != nullptr;
    if (isHostStream && staged)
      return failure(Code::kInvalidUsage, "{} is memory of a CUDA device, and stream {} a host stream",
                     buffers.send.staged ? "sendbuff" : "recvbuff", call.handle);
    if (isHostStream || !(buffers.send.known || buffers.recv.known)) return Place();
  }
  BPS_TRY(checkDevice(buffers.send, "sendbuff"));
  BPS_TRY(checkDevice(buffers.recv, "recvbuff"));
  if (staged) BPS_TRY(buffers_.prepare(*device_, settings_.staging));

  const void* fetched = buffers.scalar.staged ? call.deviceScalar : nullptr;
  const std::shared_ptr<cuda::StreamGate> gate = BPS_TRY(
      gates_->enter(static_cast<cuda::Stream>(const_cast<void*>(call.handle)), fetched, elementBytes(call.type)));
  collective.send = static_cast<const uint8_t*>(buffers.send.address);
  collective.recv = static_cast<uint8_t*>(const_cast<void*>(buffers.recv.address));
  collective.stageSend = buffers.send.staged;
  collective.stageRecv = buffers.recv.staged;
  if (fetched != nullptr) collective.deviceScalar = gate->scalar();
  return Place(std::make_shared<CudaPlace>(gate, failed_));
}

}  // namespace bps
