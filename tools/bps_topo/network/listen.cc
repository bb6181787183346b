#include "tools/bps_topo/network/listen.h"

#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <functional>
#include <memory>
#include <thread>

#include "src/base/format.h"
#include "src/base/guard.h"
#include "src/base/io/interfaces.h"
#include "src/base/log.h"
#include "src/control/keys/crypto.h"
#include "src/control/link/auth_listener.h"
#include "tools/bps_topo/network/data_connections.h"
#include "tools/command_line/listen_address.h"

namespace bps {
namespace {

constexpr uint32_t kMaxBursts = 100, kMaxBurstMs = 10'000;

Result<Address> addressOf(const std::string& where, const Env& env) {
  const bool portOnly = !where.empty() && where.find_first_not_of("0123456789") == std::string::npos;
  if (!portOnly) return listenAddress({"--listen", where, kProbePort});
  Result<HostPort> given = parseHostPort("any:" + where, kProbePort);
  if (!given.ok()) return failure(Code::kInvalidArgument, "--listen {}: not a port, expected 0 to 65535", where);
  Address address = BPS_TRY(selectInterfaces(env.socketIfname)).front().address;
  address.setPort(std::move(given).value().port);
  return address;
}

Status sendDevices(ProbeConnection& line, const net::Plugin& plugin, const Env& env) {
  const std::vector<Interface> interfaces = BPS_TRY(selectInterfaces(env.socketIfname));
  const int count = plugin.deviceCount();
  if (count <= 0) return failure(Code::kSystem, "the transport {} has no device on this machine", plugin.description());
  for (int i = 0; i < count; ++i) {
    ProbeDevice device{static_cast<uint32_t>(count), BPS_TRY(plugin.device(i)).name, {}};
    const auto found = std::find_if(interfaces.begin(), interfaces.end(),
                                    [&](const Interface& interface) { return interface.name == device.name; });
    if (found != interfaces.end()) device.address = found->address;
    BPS_TRY(line.sendMessage(device));
  }
  return {};
}

Status checkOpen(const ProbeOpen& open, const net::Plugin& plugin) {
  if (open.device >= static_cast<uint32_t>(plugin.deviceCount()))
    return failure(Code::kInvalidArgument, "device {} does not exist, the transport has {}", open.device,
                   plugin.deviceCount());
  if (open.bursts < 1 || open.bursts > kMaxBursts || open.burstMs < 1 || open.burstMs > kMaxBurstMs)
    return failure(Code::kInvalidArgument, "{} bursts of {} ms, expected 1 to {} bursts of 1 to {} ms", open.bursts,
                   open.burstMs, kMaxBursts, kMaxBurstMs);
  return {};
}

// Serves the measurement of one NIC. Returns a text about the result, for printing.
Result<std::string> measure(ProbeConnection& line, const Env& env) {
  const auto plugin = BPS_TRY(net::Plugin::load(env.netPlugin, line.job()));
  BPS_TRY(sendDevices(line, *plugin, env));
  const ProbeOpen open = BPS_TRY(line.receiveMessage<ProbeOpen>());
  BPS_TRY(checkOpen(open, *plugin));
  const int device = static_cast<int>(open.device);
  const auto listener = BPS_TRY(plugin->listen(device));
  const net::Handle handle = BPS_TRY(handleOf(open.handle));
  const auto connector = plugin->connect(device, handle);
  BPS_TRY(line.sendMessage(ProbeOpened{blobOf(listener->handle())}));
  const DataConnections pair = BPS_TRY(connectData(line, *listener, *connector));
  const std::chrono::milliseconds time(open.burstMs);
  double last = 0;
  for (uint32_t burst = 0; burst < open.bursts; ++burst) {
    last = BPS_TRY(pair.receive->burst(line.peerTimeout(time)));
    BPS_TRY(line.sendMessage(ProbeRate{last}));
  }
  for (uint32_t burst = 0; burst < open.bursts; ++burst) BPS_TRY(pair.send->burst(time, line.peerTimeout(time)));
  line.waitForClose();
  return fmt::format("{} in over {}", megabits(last), BPS_TRY(plugin->device(device)).name);
}

// Serves one measuring client in a separate thread. Meanwhile, the main thread can reject other
// clients as busy.
class ProbeServerSession {
 public:
  // Rings `bell` when the session has ended. `bell` must outlive the session.
  ProbeServerSession(Peer peer, const Env& env, const Doorbell& bell)
      : line_(std::move(peer), std::chrono::milliseconds(static_cast<int64_t>(env.timeout.value * 1000))), env_(env) {
    thread_ = std::thread([this, &bell] {
      run();
      over_.store(true, std::memory_order_release);
      bell.ring();
    });
  }
  ProbeServerSession(const ProbeServerSession&) = delete;
  ProbeServerSession& operator=(const ProbeServerSession&) = delete;
  ~ProbeServerSession() { thread_.join(); }

  const std::string& name() const { return line_.name(); }
  bool over() const { return over_.load(std::memory_order_acquire); }

 private:
  void run() {
    const Status ended = guarded([this]() -> Status {
      const std::string outcome = BPS_TRY(measure(line_, env_));
      fmt::print("{}: {}\n", name(), outcome);
      return {};
    });
    if (!ended.ok()) {
      fmt::print("{}: not measured: {}\n", name(), ended.message());
      (void)guarded([&] { line_.sendFailure(ended); });
    }
    std::fflush(stdout);
  }

  ProbeConnection line_;
  const Env& env_;
  std::atomic<bool> over_{false};
  std::thread thread_;
};

void acceptProbes(std::vector<Peer> peers, AuthListener& doorman, std::unique_ptr<ProbeServerSession>& session,
                  const std::function<std::unique_ptr<ProbeServerSession>(Peer)>& start) {
  for (Peer& peer : peers) {
    if (session == nullptr) session = start(std::move(peer));
    else doorman.reject(std::move(peer.socket), {Refusal::Kind::kBusy, Code::kRemote, "busy with " + session->name()});
  }
}

}  // namespace

Status listenForProbes(const std::string& where, const Env& env) {
  BPS_TRY(cryptoInit());
  logThreadName("probe");
  const Key key = BPS_TRY(probeKey(env));
  disableSharedMemory();
  const Address address = BPS_TRY(addressOf(where, env));
  const Credentials credentials{key, env.auth, static_cast<uint32_t>(env.timeout.value * 1000)};
  Result<AuthListener> created = AuthListener::create(address, credentials, Purpose::kProbe, 0);
  if (!created.ok()) return std::move(created).status().within("--listen " + where);
  AuthListener doorman = std::move(created).value();
  const Doorbell bell = BPS_TRY(Doorbell::create());
  fmt::print("listening on {}\n", BPS_TRY(doorman.address()).text());
  std::fflush(stdout);
  std::unique_ptr<ProbeServerSession> session;
  PollSet set;
  while (true) {
    set.clear();
    set.add(bell.fd());
    doorman.watch(set);
    BPS_TRY(set.wait());
    bell.clear();
    if (session != nullptr && session->over()) session.reset();
    acceptProbes(doorman.step(set), doorman, session,
                 [&](Peer peer) { return std::make_unique<ProbeServerSession>(std::move(peer), env, bell); });
  }
}

}  // namespace bps
