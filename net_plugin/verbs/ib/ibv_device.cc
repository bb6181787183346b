#include "net_plugin/verbs/ib/ibv_device.h"

#include <algorithm>
#include <cerrno>

#include "net_plugin/abi.h"
#include "net_plugin/log.h"
#include "net_plugin/verbs/ib/handshake.h"
#include "net_plugin/verbs/memlock.h"
#include "src/base/format.h"

namespace bps::plugin::verbs {
namespace {

// The least memory that one connection registers: its page of grants and its bounce buffers.
constexpr uint64_t kMinMemlockBytes = uint64_t{1} << 20;
constexpr uint64_t kMaxPieceBytes = uint64_t{1} << 30;

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
    return systemFailure("opening it (is /dev/infiniband accessible, and is the device's rdma-core driver installed?)",
                         error);
  return Context(context, ContextCloser{&library});
}

// Tries to register an invalid dma-buf. A driver without dma-buf support rejects the call before it
// validates the descriptor, and returns one of the three errors below.
bool supportsDmaBuf(const Library& library, ibv_pd* domain) {
  if (library.regDmaBufMr == nullptr) return false;
  errno = 0;
  ibv_mr* region = library.regDmaBufMr(domain, 0, 0, 0, -1, 0);
  const int error = errno;
  if (region != nullptr) library.deregMr(region);
  return region == nullptr && error != EOPNOTSUPP && error != EPROTONOSUPPORT && error != ENOSYS;
}

int queryPtrSupport(const Library& library, ibv_pd* domain, const VerbsOptions& options) {
  int ptrSupport = abi::kPtrHost;
  if (!options.peerMemModule.empty()) ptrSupport |= abi::kPtrCuda;
  if (supportsDmaBuf(library, domain)) ptrSupport |= abi::kPtrDmaBuf;
  return ptrSupport;
}

// Parses the filter for devices. Invalid text in NCCL's variable is ignored, and the filter selects
// all devices. Invalid text in BPS_IB_HCA is an error.
Result<HcaFilter> parseHcaFilter(const VerbsOptions& options) {
  Result<HcaFilter> filter = HcaFilter::parse(options.hca);
  if (filter.ok()) return filter;
  Status why = failure(Code::kInvalidArgument, "{}={}", options.hcaVariable, filter.error().message());
  if (options.hcaVariable.starts_with("BPS_")) return why;
  logWarn("{}; it is ignored", why.message());
  return HcaFilter::parse({});
}

// If the filter selects no port, returns a text that says so. Otherwise returns empty text.
std::string describeEmptySelection(const std::vector<Port>& ports, const HcaFilter& filter,
                                   const VerbsOptions& options) {
  std::string names;
  for (const Port& port : ports) {
    if (filter.selects(port.device, port.number)) return {};
    names += (names.empty() ? "" : ", ") + port.name();
  }
  return fmt::format("; {}={} selects none of {}", options.hcaVariable, options.hca, names);
}

}  // namespace

IbvDevice::IbvDevice(const Library& library, const PortChoice& choice, const VerbsOptions& options, Context context,
                     Domain domain, const Limits& limits)
    : RdmaDevice(choice.port, choice.gid),
      library_(library),
      options_(options),
      context_(std::move(context)),
      domain_(std::move(domain)),
      limits_(limits),
      registry_(library, domain_.get(), choice.port.name(), limits.ptrSupport) {}

Result<std::unique_ptr<IbvDevice>> IbvDevice::open(const Library& library, const PortChoice& choice,
                                                   const VerbsOptions& options) {
  Context context = BPS_TRY(openContext(library, choice.port.device));
  if (context->device->transport_type != IBV_TRANSPORT_IB)
    return Status(Code::kSystem, "it is not an InfiniBand or RoCE device (iWARP is not supported)");
  ibv_device_attr device{};
  if (const int error = library.queryDevice(context.get(), &device)) return systemFailure("ibv_query_device", error);
  ibv_port_attr port{};
  const auto number = static_cast<uint8_t>(choice.port.number);
  if (const int error = library.queryPort(context.get(), number, &port)) return systemFailure("ibv_query_port", error);
  Domain domain(library.allocPd(context.get()), DomainCloser{&library});
  if (!domain) return systemFailure("ibv_alloc_pd", errno);
  const Limits limits{.lid = port.lid,
                      .mtu = port.active_mtu,
                      .pieceBytes = std::min<uint64_t>(port.max_msg_sz, kMaxPieceBytes),
                      .requests = static_cast<uint32_t>(std::min(device.max_qp_wr, device.max_cqe / 2)),
                      .write = options.write,
                      .ptrSupport = queryPtrSupport(library, domain.get(), options)};
  return std::unique_ptr<IbvDevice>(
      new IbvDevice(library, choice, options, std::move(context), std::move(domain), limits));
}

Result<std::unique_ptr<RdmaDevice::Handshake>> IbvDevice::startHandshake(UniqueFd socket, Role role,
                                                                         const VerbsExtension* listener,
                                                                         Deadline deadline) {
  return QueueHandshake::begin(*this, std::move(socket), role, listener, deadline);
}

Result<std::vector<std::unique_ptr<RdmaDevice>>> openDevices(const VerbsOptions& options) {
  std::vector<std::unique_ptr<RdmaDevice>> devices;
  const HcaFilter filter = BPS_TRY(parseHcaFilter(options));
  const std::vector<Port> ports = readPorts();
  if (ports.empty()) {
    logInfo("no RDMA devices: /sys/class/infiniband is empty");
    return devices;
  }
  std::vector<SkippedPort> skipped;
  const std::vector<PortChoice> choices = choosePorts(ports, filter, options.gidIndex, skipped);
  Result<const Library*> library = Library::open();
  const Status memlock = checkMemlock(memlockLimit(), 0, kMinMemlockBytes);
  for (const PortChoice& choice : choices) {
    Status why = memlock.clone();
    if (why.ok() && !library.ok()) why = library.error().clone();
    if (why.ok()) {
      Result<std::unique_ptr<IbvDevice>> opened = IbvDevice::open(*BPS_TRY(Library::open()), choice, options);
      if (opened.ok()) devices.push_back(std::move(opened).value());
      else why = std::move(opened).status();
    }
    if (!why.ok()) skipped.push_back({choice.port.name(), why.message()});
  }
  for (const SkippedPort& each : skipped) logInfo("RDMA device {} is not used: {}", each.port, each.why);
  if (devices.empty())
    logWarn("none of {} RDMA ports is usable, using TCP{}{}{}", ports.size(),
            describeEmptySelection(ports, filter, options), skipped.empty() ? "" : "; the first port: ",
            skipped.empty() ? "" : skipped.front().port + ": " + skipped.front().why);
  return devices;
}

}  // namespace bps::plugin::verbs
