// What CUDA devices copy per second: from and to pinned host memory, and from each to the next one.
#include <algorithm>
#include <chrono>
#include <memory>

#include "src/base/format.h"
#include "src/device/device.h"
#include "src/device/pinned_memory.h"
#include "tools/bps_topo/probe.h"

namespace bps {
namespace {

constexpr size_t kBytes = size_t{64} << 20;
constexpr size_t kRounds = 9;

using Clock = std::chrono::steady_clock;

class DeviceMemory {
 public:
  static Result<std::unique_ptr<DeviceMemory>> create(const cuda::Device& device) {
    const cuda::Scope scope(device);
    cuda::Address address = 0;
    BPS_TRY(check(device.api(), device.api().memAlloc(&address, kBytes), "cuMemAlloc"));
    return std::unique_ptr<DeviceMemory>(new DeviceMemory(device, address));
  }
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  ~DeviceMemory() {
    const cuda::Scope scope(device_);
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
    return Gpu{device, BPS_TRY(cuda::OwnStream::create(*device)), BPS_TRY(DeviceMemory::create(*device)),
               BPS_TRY(cuda::PinnedMemory::create(*device, kBytes)), cuda::Device::busId(api, ordinal)};
  }

  // Bytes per second, round by round.
  Result<std::vector<double>> copyRates(cuda::Address to, cuda::Address from) const {
    const cuda::Scope scope(*device);
    const cuda::Api& api = device->api();
    std::vector<double> rates;
    for (size_t round = 0; round < kRounds + 1; ++round) {
      const auto start = Clock::now();
      BPS_TRY(check(api, api.memcpyAsync(to, from, kBytes, stream->get()), "cuMemcpyAsync"));
      BPS_TRY(check(api, api.streamSynchronize(stream->get()), "cuStreamSynchronize"));
      const std::chrono::duration<double> took = Clock::now() - start;
      // The first round only warms up.
      if (round > 0) rates.push_back(static_cast<double>(kBytes) / took.count());
    }
    return rates;
  }

  cuda::Device* device;
  std::unique_ptr<cuda::OwnStream> stream;
  std::unique_ptr<DeviceMemory> memory;
  cuda::PinnedMemory host;
  std::string busId;
};

NodeId nodeOf(const Draft& draft, const Gpu& gpu) {
  const auto& nodes = draft.nodes();
  const auto found = std::find_if(nodes.begin(), nodes.end(), [&](const Node& node) {
    return node.kind == NodeKind::kGpu && node.pcie.busId == gpu.busId;
  });
  return found == nodes.end() ? kNoNode : static_cast<NodeId>(found - nodes.begin());
}

NodeId numaOf(const Draft& draft, NodeId id) {
  while (draft.nodes()[id].kind != NodeKind::kNuma) id = draft.nodes()[id].parent;
  return id;
}

// Both ways are one link's; the slower one counts.
Status probeHost(const Gpu& gpu, Draft& draft, std::vector<Measure>& measures) {
  const std::string name = fmt::format("device {}", gpu.device->ordinal());
  const NodeId node = nodeOf(draft, gpu);
  const std::string note = gpu.busId + (node == kNoNode ? ", which this topology does not have" : "");
  const cuda::Address device = gpu.memory->address(), host = gpu.host.address();
  measures.push_back(summarise("host to " + name, BPS_TRY(gpu.copyRates(device, host)), note));
  const double in = measures.back().bytesPerSecond;
  measures.push_back(summarise(name + " to host", BPS_TRY(gpu.copyRates(host, device)), note));
  if (node != kNoNode) draft.node(node).pcie.measured = std::min(in, measures.back().bytesPerSecond);
  return {};
}

// It is the rate of the NVLinks between the two where there are any, else, across CPUs, of such copies.
Status probePeer(const Gpu& from, const Gpu& to, Draft& draft, std::vector<Measure>& measures) {
  measures.push_back(summarise(fmt::format("device {} to device {}", from.device->ordinal(), to.device->ordinal()),
                               BPS_TRY(from.copyRates(to.memory->address(), from.memory->address())), "one way"));
  const double rate = measures.back().bytesPerSecond;
  const NodeId source = nodeOf(draft, from), target = nodeOf(draft, to);
  if (source == kNoNode || target == kNoNode) return {};
  if (draft.measureNvlinks(source, to.busId, rate)) return {};
  const NodeId numa = numaOf(draft, source);
  if (numa != numaOf(draft, target)) draft.node(numa).cpu.peerRate = rate;
  return {};
}

Status probeAll(const cuda::Api& api, Draft& draft, std::vector<Measure>& measures) {
  std::vector<Gpu> gpus;
  const int count = BPS_TRY(cuda::Device::count(api));
  gpus.reserve(static_cast<size_t>(count));
  for (int ordinal = 0; ordinal < count; ++ordinal) gpus.push_back(BPS_TRY(Gpu::open(api, ordinal)));
  for (const Gpu& gpu : gpus) BPS_TRY(probeHost(gpu, draft, measures));
  if (gpus.size() == 1) measures.push_back({"device to device", 0, 0, "there is one device"});
  for (size_t i = 0; i < gpus.size() && gpus.size() > 1; ++i)
    BPS_TRY(probePeer(gpus[i], gpus[(i + 1) % gpus.size()], draft, measures));
  return {};
}

}  // namespace

void probeDevices(Draft& draft, const Env& env, std::vector<Measure>& measures) {
  std::string why = "BPS_DEVICE=host";
  Result<const cuda::Api*> found = env.device == "host" ? Result<const cuda::Api*>(nullptr) : cuda::driver();
  if (!found.ok()) {
    why = found.error().message();
  } else if (const cuda::Api* api = std::move(found).value(); api != nullptr) {
    const Status probed = probeAll(*api, draft, measures);
    if (probed.ok()) return;
    why = probed.message();
  }
  measures.push_back({"host to device", 0, 0, why});
  measures.push_back({"device to device", 0, 0, why});
}

}  // namespace bps
