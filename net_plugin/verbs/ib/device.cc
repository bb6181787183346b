#include "net_plugin/verbs/ib/device.h"

#include <algorithm>
#include <cerrno>

#include "net_plugin/abi.h"
#include "net_plugin/log.h"
#include "net_plugin/verbs/ib/handshake.h"
#include "net_plugin/verbs/memlock.h"
#include "src/base/format.h"

namespace bps::plugin::verbs {
namespace {

// What one connection registers at the least: its page of grants, and its bounce buffers.
constexpr uint64_t kLeastMemlock = uint64_t{1} << 20;
constexpr uint64_t kMostPieceBytes = uint64_t{1} << 30;

Result<Context> openContext(const Library& library, const std::string& name) {
  int count = 0;
  ibv_device** list = library.getDeviceList(&count);
  if (list == nullptr) return systemFailure("listing the RDMA devices", errno);
  ibv_context* context = nullptr;
  int error = ENODEV;
  for (int i = 0; i < count; ++i) {
    if (name != library.getDeviceName(list[i])) continue;
    context = library.openDevice(list[i]);
    error = errno;
  }
  library.freeDeviceList(list);
  if (context == nullptr)
    return systemFailure("opening it (is /dev/infiniband there and allowed, and the device's driver of rdma-core?)",
                         error);
  return Context(context, ContextCloser{&library});
}

// A dma-buf that cannot be is registered: drivers that know of none say so before they look at it.
bool takesDmaBufs(const Library& library, ibv_pd* domain) {
  if (library.regDmaBufMr == nullptr) return false;
  errno = 0;
  ibv_mr* region = library.regDmaBufMr(domain, 0, 0, 0, -1, 0);
  const int error = errno;
  if (region != nullptr) library.deregMr(region);
  return region == nullptr && error != EOPNOTSUPP && error != EPROTONOSUPPORT && error != ENOSYS;
}

int pointersOf(const Library& library, ibv_pd* domain, const Settings& settings) {
  int pointers = abi::kPtrHost;
  if (!settings.peerMemory.empty()) pointers |= abi::kPtrCuda;
  if (takesDmaBufs(library, domain)) pointers |= abi::kPtrDmaBuf;
  return pointers;
}

// A text that only NCCL understands selects all devices.
Result<HcaFilter> filterOf(const Settings& settings) {
  Result<HcaFilter> filter = HcaFilter::parse(settings.hca);
  if (filter.ok()) return filter;
  Status why = failure(Code::kInvalidArgument, "{}={}", settings.hcaVariable, filter.error().message());
  if (settings.hcaVariable.starts_with("BPS_")) return why;
  logWarn("{}; it is ignored", why.message());
  return HcaFilter::parse({});
}

// Why no port was even looked at; empty: some were.
std::string nothingSelected(const std::vector<Port>& ports, const HcaFilter& filter, const Settings& settings) {
  std::string names;
  for (const Port& port : ports) {
    if (filter.selects(port.device, port.number)) return {};
    names += (names.empty() ? "" : ", ") + port.name();
  }
  return fmt::format("; {}={} selects none of {}", settings.hcaVariable, settings.hca, names);
}

}  // namespace

OpenDevice::OpenDevice(const Library& library, const Choice& choice, const Settings& settings, Context context,
                       Domain domain, const Limits& limits)
    : Device(choice.port, choice.gid),
      library_(library),
      settings_(settings),
      context_(std::move(context)),
      domain_(std::move(domain)),
      limits_(limits),
      registry_(library, domain_.get(), choice.port.name(), limits.pointers) {}

Result<std::unique_ptr<OpenDevice>> OpenDevice::open(const Library& library, const Choice& choice,
                                                     const Settings& settings) {
  Context context = BPS_TRY(openContext(library, choice.port.device));
  if (context->device->transport_type != IBV_TRANSPORT_IB)
    return Status(Code::kSystem, "it is no InfiniBand or RoCE device (iWARP connects in another way)");
  ibv_device_attr device{};
  if (const int error = library.queryDevice(context.get(), &device)) return systemFailure("ibv_query_device", error);
  ibv_port_attr port{};
  const auto number = static_cast<uint8_t>(choice.port.number);
  if (const int error = library.queryPort(context.get(), number, &port)) return systemFailure("ibv_query_port", error);
  Domain domain(library.allocPd(context.get()), DomainCloser{&library});
  if (!domain) return systemFailure("ibv_alloc_pd", errno);
  const Limits limits{.lid = port.lid,
                      .mtu = port.active_mtu,
                      .pieceBytes = std::min<uint64_t>(port.max_msg_sz, kMostPieceBytes),
                      .requests = static_cast<uint32_t>(std::min(device.max_qp_wr, device.max_cqe / 2)),
                      .write = settings.write,
                      .pointers = pointersOf(library, domain.get(), settings)};
  return std::unique_ptr<OpenDevice>(
      new OpenDevice(library, choice, settings, std::move(context), std::move(domain), limits));
}

Result<std::unique_ptr<Device::Handshake>> OpenDevice::shake(UniqueFd socket, Role role, const Sign* listener,
                                                             Deadline deadline) {
  return QueueHandshake::begin(*this, std::move(socket), role, listener, deadline);
}

Result<std::vector<std::unique_ptr<Device>>> openDevices(const Settings& settings) {
  std::vector<std::unique_ptr<Device>> devices;
  const HcaFilter filter = BPS_TRY(filterOf(settings));
  const std::vector<Port> ports = readPorts();
  if (ports.empty()) {
    logInfo("no RDMA devices: there is nothing in /sys/class/infiniband");
    return devices;
  }
  std::vector<LeftOut> leftOut;
  const std::vector<Choice> choices = choosePorts(ports, filter, settings.gidIndex, leftOut);
  Result<const Library*> library = Library::open();
  const Status memlock = checkMemlock(memlockLimit(), 0, kLeastMemlock);
  for (const Choice& choice : choices) {
    Status why = memlock.clone();
    if (why.ok() && !library.ok()) why = library.error().clone();
    if (why.ok()) {
      Result<std::unique_ptr<OpenDevice>> opened = OpenDevice::open(*BPS_TRY(Library::open()), choice, settings);
      if (opened.ok()) devices.push_back(std::move(opened).value());
      else why = std::move(opened).status();
    }
    if (!why.ok()) leftOut.push_back({choice.port.name(), why.message()});
  }
  for (const LeftOut& each : leftOut) logInfo("RDMA device {} is not used: {}", each.port, each.why);
  if (devices.empty())
    logWarn("of {} RDMA ports none is used, TCP instead{}{}{}", ports.size(), nothingSelected(ports, filter, settings),
            leftOut.empty() ? "" : "; the first: ",
            leftOut.empty() ? "" : leftOut.front().port + ": " + leftOut.front().why);
  return devices;
}

}  // namespace bps::plugin::verbs
