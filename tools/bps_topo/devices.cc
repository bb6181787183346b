// Measures the copy rates of CUDA devices: between a device and pinned host memory, and from each
// device to the next device.
#include <algorithm>
#include <chrono>
#include <memory>

#include "src/base/format.h"
#include "src/cuda/device.h"
#include "src/cuda/pinned_memory.h"
#include "tools/bps_topo/probe.h"

namespace bps {
namespace {

constexpr size_t kBytes = size_t{64} << 20;
constexpr size_t kRounds = 9;

using Clock = std::chrono::steady_clock;

class DeviceMemory {
 public:
  static Result<std::unique_ptr<DeviceMemory>> create(const cuda::Device& device) {
    const cuda::ScopedContext scope(device);
    cuda::Address address = 0;
    BPS_TRY(check(device.api(), device.api().memAlloc(&address, kBytes), "cuMemAlloc"));
    return std::unique_ptr<DeviceMemory>(new DeviceMemory(device, address));
  }
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  ~DeviceMemory() {
    const cuda::ScopedContext scope(device_);
    device_.api().memFree(address_);
  }
  cuda::Address address() const { return address_; }

 private:
  DeviceMemory(const cuda::Device& device, cuda::Address address) : device_(device), address_(address) {}
  const cuda::Device& device_;
  cuda::Address address_;
};

struct Gpu {
  static Result<Gpu> open(const cuda::Api& api, int ordinal) {
    cuda::Device* device = BPS_TRY(cuda::Device::open(api, ordinal));
    return Gpu{device, BPS_TRY(cuda::OwnedStream::create(*device)), BPS_TRY(DeviceMemory::create(*device)),
               BPS_TRY(cuda::PinnedMemory::create(*device, kBytes)), cuda::Device::busId(api, ordinal)};
  }

  // Returns the bytes per second of each round.
  Result<std::vector<double>> copyRates(cuda::Address to, cuda::Address from) const {
    const cuda::ScopedContext scope(*device);
    const cuda::Api& api = device->api();
    std::vector<double> rates;
    for (size_t round = 0; round < kRounds + 1; ++round) {
      const auto start = Clock::now();
      BPS_TRY(check(api, api.memcpyAsync(to, from, kBytes, stream->get()), "cuMemcpyAsync"));
      BPS_TRY(check(api, api.streamSynchronize(stream->get()), "cuStreamSynchronize"));
      const std::chrono::duration<double> took = Clock::now() - start;
      // The first round is a warm-up and is not counted.
      if (round > 0) rates.push_back(static_cast<double>(kBytes) / took.count());
    }
    return rates;
  }

  cuda::Device* device;
  std::unique_ptr<cuda::OwnedStream> stream;
  std::unique_ptr<DeviceMemory> memory;
  cuda::PinnedMemory host;
  std::string busId;
};

NodeId nodeOf(const TopologyBuilder& builder, const Gpu& gpu) {
  const auto& nodes = builder.nodes();
  const auto found = std::find_if(nodes.begin(), nodes.end(), [&](const Node& node) {
    return node.kind == NodeKind::kGpu && node.pcie.busId == gpu.busId;
  });
  return found == nodes.end() ? kNoNode : static_cast<NodeId>(found - nodes.begin());
}

NodeId numaOf(const TopologyBuilder& builder, NodeId id) {
  while (builder.nodes()[id].kind != NodeKind::kNuma) id = builder.nodes()[id].parent;
  return id;
}

// Measures the copies between the host and a device. Both directions use one link, so the rate of
// the link is the rate of the slower direction.
Status probeHost(const Gpu& gpu, TopologyBuilder& builder, std::vector<ProbeResult>& results) {
  const std::string name = fmt::format("device {}", gpu.device->ordinal());
  const NodeId node = nodeOf(builder, gpu);
  const std::string note = gpu.busId + (node == kNoNode ? ", not in this topology" : "");
  const cuda::Address device = gpu.memory->address(), host = gpu.host.address();
  results.push_back(summarise("host to " + name, BPS_TRY(gpu.copyRates(device, host)), note));
  const double in = results.back().bytesPerSecond;
  results.push_back(summarise(name + " to host", BPS_TRY(gpu.copyRates(host, device)), note));
  if (node != kNoNode) builder.node(node).pcie.measured = std::min(in, results.back().bytesPerSecond);
  return {};
}

// Measures the copies from one device to another. If NVLinks connect the devices, the measured rate
// is the rate of the NVLinks. If the devices have no NVLink and belong to different CPUs, the
// measured rate is the rate of peer copies between the CPUs.
Status probePeer(const Gpu& from, const Gpu& to, TopologyBuilder& builder, std::vector<ProbeResult>& results) {
  results.push_back(summarise(fmt::format("device {} to device {}", from.device->ordinal(), to.device->ordinal()),
                              BPS_TRY(from.copyRates(to.memory->address(), from.memory->address())), "one way"));
  const double rate = results.back().bytesPerSecond;
  const NodeId source = nodeOf(builder, from), target = nodeOf(builder, to);
  if (source == kNoNode || target == kNoNode) return {};
  if (builder.setMeasuredNvlinkRate(source, to.busId, rate)) return {};
  const NodeId numa = numaOf(builder, source);
  if (numa != numaOf(builder, target)) builder.node(numa).cpu.peerRate = rate;
  return {};
}

Status probeAll(const cuda::Api& api, TopologyBuilder& builder, std::vector<ProbeResult>& results) {
  std::vector<Gpu> gpus;
  const int count = BPS_TRY(cuda::Device::count(api));
  gpus.reserve(static_cast<size_t>(count));
  for (int ordinal = 0; ordinal < count; ++ordinal) gpus.push_back(BPS_TRY(Gpu::open(api, ordinal)));
  for (const Gpu& gpu : gpus) BPS_TRY(probeHost(gpu, builder, results));
  if (gpus.size() == 1) results.push_back({"device to device", 0, 0, "there is one device"});
  for (size_t i = 0; i < gpus.size() && gpus.size() > 1; ++i)
    BPS_TRY(probePeer(gpus[i], gpus[(i + 1) % gpus.size()], builder, results));
  return {};
}

}  // namespace

void probeDevices(TopologyBuilder& builder, const Env& env, std::vector<ProbeResult>& results) {
  std::string why = "BPS_DEVICE=host";
  Result<const cuda::Api*> found = env.device == "host" ? Result<const cuda::Api*>(nullptr) : cuda::driver();
  if (!found.ok()) {
    why = found.error().message();
  } else if (const cuda::Api* api = std::move(found).value(); api != nullptr) {
    const Status probed = probeAll(*api, builder, results);
    if (probed.ok()) return;
    why = probed.message();
  }
  results.push_back({"host to device", 0, 0, why});
  results.push_back({"device to device", 0, 0, why});
}

}  // namespace bps
