#include "tools/bps_topo/network/nics.h"

#include <algorithm>
#include <thread>

#include "net_plugin/tcp/route.h"
#include "src/base/format.h"
#include "src/base/io/host_lookup.h"
#include "src/base/io/interfaces.h"
#include "src/control/keys/crypto.h"
#include "src/control/link/dialer.h"
#include "tools/bps_topo/network/data_connections.h"
#include "tools/bps_topo/network/listen.h"
#include "topo/rates.h"

namespace bps {
namespace {

// The number of bursts. The first burst is a warm-up and is not counted.
constexpr uint32_t kBursts = 6;
constexpr std::chrono::milliseconds kBurstTime(100);
constexpr uint32_t kMostDevices = 4096;
constexpr std::chrono::milliseconds kBusyPause(200);

struct NicRates {
  std::vector<double> out, in;
  std::string partner;
};

// A connection to the other process, and the list of devices that the other process has sent.
struct ProbeSession {
  ProbeConnection line;
  std::vector<ProbeDevice> devices;
};

class NicProbe {
 public:
  static Result<NicProbe> create(const std::string& peer, const Env& env) {
    NicProbe probe(env);
    const HostPort where = BPS_TRY(parseHostPort(peer, kProbePort));
    probe.addresses_ = BPS_TRY(resolve(where, Deadline::in(probe.peerTimeout_)));
    probe.key_ = BPS_TRY(probeKey(env));
    disableSharedMemory();
    probe.plugin_ = BPS_TRY(net::Plugin::load(env.netPlugin, probe.job_));
    return probe;
  }

  // Connects to the other process. If that process is busy with another client, retries until the
  // peer timeout.
  Result<ProbeSession> call() const {
    const Deadline deadline = Deadline::in(peerTimeout_);
    Status busy;
    while (true) {
      Result<ProbeConnection> line = connectToPeer(deadline);
      if (!line.ok()) return busy.ok() ? std::move(line).status() : std::move(busy);
      ProbeSession call{std::move(line).value(), {}};
      Result<std::vector<ProbeDevice>> devices = receiveDevices(call.line);
      if (devices.ok() || !call.line.busy()) {
        call.devices = BPS_TRY(std::move(devices));
        return call;
      }
      busy = std::move(devices).status();
      std::this_thread::sleep_for(kBusyPause);
    }
  }

  // Measures one NIC. Closes the session, even if the measurement fails.
  Result<NicRates> measure(int device, ProbeSession& call) const {
    Result<NicRates> measured = tryMeasure(device, call);
    if (measured.ok()) {
      call.line.finish();
      return measured;
    }
    // The code kInvalidUsage means a problem of this machine. Any other failure may have its cause
    // in the other process.
    Status why = std::move(measured).status();
    if (why.code() != Code::kInvalidUsage) return call.line.rootCause(std::move(why));
    call.line.sendFailure(why);
    return why;
  }

  Result<int> deviceOf(const Node& nic) const {
    const std::optional<int> device = BPS_TRY(plugin_->find(nic.name, nic.pcie.busId));
    if (device) return *device;
    std::string names;
    for (int i = 0; i < plugin_->deviceCount(); ++i) names += " " + BPS_TRY(plugin_->device(i)).name;
    return failure(Code::kInvalidUsage,
                   "the transport {} does not offer it (see BPS_SOCKET_IFNAME, BPS_IB_HCA); it has:{}",
                   plugin_->description(), names);
  }

 private:
  explicit NicProbe(const Env& env) : env_(env), peerTimeout_(static_cast<int64_t>(env.timeout.value * 1000)) {}

  // Connects to the other process and authenticates the connection.
  Result<ProbeConnection> connectToPeer(Deadline deadline) const {
    const Credentials credentials{key_, env_.auth, static_cast<uint32_t>(peerTimeout_.count())};
    Dialer dialer({addresses_, credentials, Purpose::kProbe, job_}, deadline);
    PollSet set;
    do {
      set.clear();
      dialer.watch(set);
      BPS_TRY(set.wait());
    } while (BPS_TRY(dialer.step(set)) == Progress::kPending);
    return ProbeConnection(dialer.take(), peerTimeout_);
  }

  static Result<std::vector<ProbeDevice>> receiveDevices(ProbeConnection& line) {
    std::vector<ProbeDevice> devices;
    devices.push_back(BPS_TRY(line.receiveMessage<ProbeDevice>()));
    const uint32_t count = devices.front().count;
    if (count == 0 || count > kMostDevices)
      return failure(Code::kRemote, "{}: {} devices, expected 1 to {}", line.name(), count, kMostDevices);
    while (devices.size() < count) devices.push_back(BPS_TRY(line.receiveMessage<ProbeDevice>()));
    return devices;
  }

  // Chooses a device of the other machine that the NIC `device` reaches: the route from the NIC's
  // address to that device must leave through the NIC. Prefers the device with the same name as the
  // NIC. If the NIC is not a network interface, only the transport knows its routes. Every device
  // of the other machine then counts as reachable.
  Result<uint32_t> choosePartner(const std::string& device, const std::vector<ProbeDevice>& theirs) const {
    const std::vector<Interface> interfaces = BPS_TRY(selectInterfaces(env_.socketIfname));
    const auto mine = std::find_if(interfaces.begin(), interfaces.end(),
                                   [&](const Interface& interface) { return interface.name == device; });
    const auto reaches = [&](const ProbeDevice& other) {
      if (mine == interfaces.end()) return true;
      return other.address.length() > 0 && plugin::tcp::isRoutedThrough(device, mine->address, other.address);
    };
    std::string tried;
    std::optional<uint32_t> partner;
    for (uint32_t i = 0; i < theirs.size(); ++i) {
      const bool reached = reaches(theirs[i]);
      if (reached && theirs[i].name == device) return i;
      if (reached && !partner) partner = i;
      tried += " " + theirs[i].name;
      if (theirs[i].address.length() > 0) tried += " " + hostOf(theirs[i].address);
    }
    if (partner) return *partner;
    return failure(Code::kInvalidUsage, "no route from {} leaves through it to any of:{}", hostOf(mine->address),
                   tried);
  }

  static std::string hostOf(const Address& address) {
    const std::string text = address.text();
    return text.substr(0, text.rfind(':'));
  }

  Result<NicRates> tryMeasure(int device, ProbeSession& call) const {
    ProbeConnection& line = call.line;
    const std::string name = BPS_TRY(plugin_->device(device)).name;
    const uint32_t partner = BPS_TRY(choosePartner(name, call.devices));
    const auto listener = BPS_TRY(plugin_->listen(device));
    BPS_TRY(line.sendMessage(
        ProbeOpen{partner, kBursts, static_cast<uint32_t>(kBurstTime.count()), blobOf(listener->handle())}));
    const ProbeOpened opened = BPS_TRY(line.receiveMessage<ProbeOpened>());
    const net::Handle handle = BPS_TRY(handleOf(opened.handle));
    const auto connector = plugin_->connect(device, handle);
    const DataConnections pair = BPS_TRY(connectData(line, *listener, *connector));
    NicRates rates{.out = {}, .in = {}, .partner = call.devices[partner].name};
    for (uint32_t burst = 0; burst < kBursts; ++burst) {
      BPS_TRY(pair.send->burst(kBurstTime, line.peerTimeout(kBurstTime)));
      rates.out.push_back(BPS_TRY(line.receiveMessage<ProbeRate>()).bytesPerSecond);
    }
    for (uint32_t burst = 0; burst < kBursts; ++burst)
      rates.in.push_back(BPS_TRY(pair.receive->burst(line.peerTimeout(kBurstTime))));
    rates.out.erase(rates.out.begin());
    rates.in.erase(rates.in.begin());
    return rates;
  }

  const Env& env_;
  std::chrono::milliseconds peerTimeout_;
  uint64_t job_ = randomJobId();
  Key key_{};
  std::vector<Address> addresses_;
  std::shared_ptr<net::Plugin> plugin_;
};

// Records the rate of the slower direction as the rate of the NIC.
void recordRates(const NicRates& rates, Node& nic, std::vector<ProbeResult>& results) {
  double slower = 0;
  for (const bool out : {true, false}) {
    ProbeResult measure =
        summarise(fmt::format("NIC {} {}", nic.name, out ? "out" : "in"), out ? rates.out : rates.in, "");
    measure.note = fmt::format("{}, {} {} there", megabits(measure.bytesPerSecond), out ? "to" : "from", rates.partner);
    slower = out ? measure.bytesPerSecond : std::min(slower, measure.bytesPerSecond);
    results.push_back(std::move(measure));
  }
  nic.mbps = slower / kBytesPerMbit;
}

}  // namespace

Status probeNics(const std::string& peer, const Env& env, TopologyBuilder& builder, std::vector<ProbeResult>& results) {
  BPS_TRY(cryptoInit());
  Result<NicProbe> created = NicProbe::create(peer, env);
  if (!created.ok()) return std::move(created).status().within("--peer " + peer);
  const NicProbe probe = std::move(created).value();
  bool asked = false, none = true;
  Status gone;
  for (NodeId id = 0; id < builder.nodes().size(); ++id) {
    Node& nic = builder.node(id);
    if (nic.kind != NodeKind::kNic || nic.mbps == kNoLinkMbps) continue;
    none = false;
    const auto skip = [&](const Status& why) { results.push_back({"NIC " + nic.name, 0, 0, why.message(), true}); };
    Result<int> device = probe.deviceOf(nic);
    if (!device.ok() || !gone.ok()) {
      skip(device.ok() ? gone : device.error());
      continue;
    }
    Result<ProbeSession> made = probe.call();
    if (!made.ok() && !asked) return std::move(made).status().within("--peer " + peer);
    if (!made.ok()) {
      gone = std::move(made).status();
      skip(gone);
      continue;
    }
    asked = true;
    ProbeSession call = std::move(made).value();
    Result<NicRates> rates = probe.measure(std::move(device).value(), call);
    if (rates.ok()) recordRates(std::move(rates).value(), nic, results);
    else skip(rates.error());
  }
  if (none) results.push_back({"NICs", 0, 0, "this topology has no NIC with a link", true});
  return {};
}

}  // namespace bps
