#include "tools/bps_topo/network/nics.h"

#include <algorithm>
#include <thread>

#include "net_plugin/tcp/route.h"
#include "src/base/format.h"
#include "src/control/keys/secret.h"
#include "src/control/link/dialer.h"
#include "tools/bps_topo/network/listen.h"
#include "tools/bps_topo/network/pair.h"
#include "topo/rates.h"

namespace bps {
namespace {

// The first turn only warms up.
constexpr uint32_t kTurns = 6;
constexpr std::chrono::milliseconds kTurn(100);
constexpr uint32_t kMostDevices = 4096;
constexpr std::chrono::milliseconds kBusyPause(200);

struct NicRates {
  std::vector<double> out, in;
  std::string partner;
};

// A connection to the other side, which has said what it has.
struct Call {
  ProbeLine line;
  std::vector<ProbeDevice> devices;
};

class NicProbe {
 public:
  static Result<NicProbe> create(const std::string& peer, const Env& env) {
    NicProbe probe(env);
    const HostPort where = BPS_TRY(parseHostPort(peer, kProbePort));
    probe.addresses_ = BPS_TRY(resolve(where, Deadline::in(probe.patience_)));
    probe.key_ = BPS_TRY(probeKey(env));
    useDevicesOnly();
    probe.plugin_ = BPS_TRY(net::Plugin::load(env.netPlugin, probe.job_));
    return probe;
  }

  // Waits while the other side is busy with somebody else, but not for ever.
  Result<Call> call() const {
    const Deadline deadline = Deadline::in(patience_);
    Status busy;
    while (true) {
      Result<ProbeLine> line = dial(deadline);
      if (!line.ok()) return busy.ok() ? std::move(line).status() : std::move(busy);
      Call call{std::move(line).value(), {}};
      Result<std::vector<ProbeDevice>> devices = hearDevices(call.line);
      if (devices.ok() || !call.line.busy()) {
        call.devices = BPS_TRY(std::move(devices));
        return call;
      }
      busy = std::move(devices).status();
      std::this_thread::sleep_for(kBusyPause);
    }
  }

  // The call ends with it, well or not.
  Result<NicRates> measure(int device, Call& call) const {
    Result<NicRates> measured = tryMeasure(device, call);
    if (measured.ok()) {
      call.line.finish();
      return measured;
    }
    // What this side cannot do it knows best itself.
    Status why = std::move(measured).status();
    if (why.code() != Code::kInvalidUsage) return call.line.verdict(std::move(why));
    call.line.giveUp(why);
    return why;
  }

  Result<int> deviceOf(const Node& nic) const {
    const std::optional<int> device = BPS_TRY(plugin_->find(nic.name, nic.pcie.busId));
    if (device) return *device;
    std::string names;
    for (int i = 0; i < plugin_->deviceCount(); ++i) names += " " + BPS_TRY(plugin_->device(i)).name;
    return failure(Code::kInvalidUsage, "the transport {} does not offer it (BPS_SOCKET_IFNAME, BPS_IB_HCA); it has:{}",
                   plugin_->description(), names);
  }

 private:
  explicit NicProbe(const Env& env) : env_(env), patience_(static_cast<int64_t>(env.timeout.value * 1000)) {}

  // An authenticated connection.
  Result<ProbeLine> dial(Deadline deadline) const {
    const Credentials credentials{key_, env_.auth, static_cast<uint32_t>(patience_.count())};
    Dialer dialer({addresses_, credentials, Purpose::kProbe, job_}, deadline);
    PollSet set;
    do {
      set.clear();
      dialer.watch(set);
      BPS_TRY(set.wait());
    } while (BPS_TRY(dialer.step(set)) == Progress::kPending);
    return ProbeLine(dialer.take(), patience_);
  }

  static Result<std::vector<ProbeDevice>> hearDevices(ProbeLine& line) {
    std::vector<ProbeDevice> devices;
    devices.push_back(BPS_TRY(line.hear<ProbeDevice>()));
    const uint32_t count = devices.front().count;
    if (count == 0 || count > kMostDevices) return failure(Code::kRemote, "{}: {} devices", line.name(), count);
    while (devices.size() < count) devices.push_back(BPS_TRY(line.hear<ProbeDevice>()));
    return devices;
  }

  // Which of the other side's devices: one that what is sent from this NIC's address reaches through this NIC, the one
  // of the same name first. Of a device that is no network interface nobody but the transport knows the ways.
  Result<uint32_t> choosePartner(const std::string& device, const std::vector<ProbeDevice>& theirs) const {
    const std::vector<Interface> interfaces = BPS_TRY(selectInterfaces(env_.socketIfname));
    const auto mine = std::find_if(interfaces.begin(), interfaces.end(),
                                   [&](const Interface& interface) { return interface.name == device; });
    const auto reaches = [&](const ProbeDevice& other) {
      if (mine == interfaces.end()) return true;
      return other.address.length() > 0 && plugin::tcp::leavesThrough(device, mine->address, other.address);
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
    return failure(Code::kInvalidUsage, "by this machine's routes nothing that is sent from {} leaves through it to:{}",
                   hostOf(mine->address), tried);
  }

  static std::string hostOf(const Address& address) {
    const std::string text = address.text();
    return text.substr(0, text.rfind(':'));
  }

  Result<NicRates> tryMeasure(int device, Call& call) const {
    ProbeLine& line = call.line;
    const std::string name = BPS_TRY(plugin_->device(device)).name;
    const uint32_t partner = BPS_TRY(choosePartner(name, call.devices));
    const auto listener = BPS_TRY(plugin_->listen(device));
    BPS_TRY(line.say(ProbeOpen{partner, kTurns, static_cast<uint32_t>(kTurn.count()), blobOf(listener->handle())}));
    const ProbeOpened opened = BPS_TRY(line.hear<ProbeOpened>());
    const net::Handle handle = BPS_TRY(handleOf(opened.handle));
    const auto connector = plugin_->connect(device, handle);
    const ProbePair pair = BPS_TRY(connectPair(line, *listener, *connector));
    NicRates rates{.out = {}, .in = {}, .partner = call.devices[partner].name};
    for (uint32_t turn = 0; turn < kTurns; ++turn) {
      BPS_TRY(pair.send->turn(kTurn, line.patience(kTurn)));
      rates.out.push_back(BPS_TRY(line.hear<ProbeRate>()).bytesPerSecond);
    }
    for (uint32_t turn = 0; turn < kTurns; ++turn)
      rates.in.push_back(BPS_TRY(pair.receive->turn(line.patience(kTurn))));
    rates.out.erase(rates.out.begin());
    rates.in.erase(rates.in.begin());
    return rates;
  }

  const Env& env_;
  std::chrono::milliseconds patience_;
  uint64_t job_ = randomJobId();
  Key key_{};
  std::vector<Address> addresses_;
  std::shared_ptr<net::Plugin> plugin_;
};

// Both ways are one NIC's; the slower one counts.
void enter(const NicRates& rates, Node& nic, std::vector<Measure>& measures) {
  double slower = 0;
  for (const bool out : {true, false}) {
    Measure measure = summarise(fmt::format("NIC {} {}", nic.name, out ? "out" : "in"), out ? rates.out : rates.in, "");
    measure.note = fmt::format("{}, {} {} there", megabits(measure.bytesPerSecond), out ? "to" : "from", rates.partner);
    slower = out ? measure.bytesPerSecond : std::min(slower, measure.bytesPerSecond);
    measures.push_back(std::move(measure));
  }
  nic.mbps = slower / kBytesPerMbit;
}

}  // namespace

Status probeNics(const std::string& peer, const Env& env, Draft& draft, std::vector<Measure>& measures) {
  BPS_TRY(secretInit());
  Result<NicProbe> created = NicProbe::create(peer, env);
  if (!created.ok()) return std::move(created).status().within("--peer " + peer);
  const NicProbe probe = std::move(created).value();
  bool asked = false, none = true;
  Status gone;
  for (NodeId id = 0; id < draft.nodes().size(); ++id) {
    Node& nic = draft.node(id);
    if (nic.kind != NodeKind::kNic || nic.mbps == kNoLinkMbps) continue;
    none = false;
    const auto skip = [&](const Status& why) { measures.push_back({"NIC " + nic.name, 0, 0, why.message(), true}); };
    Result<int> device = probe.deviceOf(nic);
    if (!device.ok() || !gone.ok()) {
      skip(device.ok() ? gone : device.error());
      continue;
    }
    Result<Call> made = probe.call();
    if (!made.ok() && !asked) return std::move(made).status().within("--peer " + peer);
    if (!made.ok()) {
      gone = std::move(made).status();
      skip(gone);
      continue;
    }
    asked = true;
    Call call = std::move(made).value();
    Result<NicRates> rates = probe.measure(std::move(device).value(), call);
    if (rates.ok()) enter(std::move(rates).value(), nic, measures);
    else skip(rates.error());
  }
  if (none) measures.push_back({"NICs", 0, 0, "this topology has none with a link", true});
  return {};
}

}  // namespace bps
