#include "tools/bps_server/check/check.h"

#include <algorithm>
#include <cstdio>
#include <thread>
#include <vector>

#include "bps/bps.h"
#include "src/base/format.h"
#include "src/base/guard.h"
#include "src/base/io/host_lookup.h"
#include "src/control/keys/crypto.h"
#include "src/control/servers/server_list.h"
#include "tools/bps_server/check/data_path.h"

namespace bps {
namespace {

using Clock = Deadline::Clock;

constexpr size_t kRoundTrips = 9;
constexpr std::chrono::milliseconds kLoadTime(300);  // time over which the summation rate is measured

struct CheckResult {
  std::string text;
  bool ok = false;
};

double secondsSince(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

std::string versionText(uint32_t code) { return fmt::format("{}.{}.{}", code / 10000, code / 100 % 100, code % 100); }

std::string rateText(double bytesPerSecond) {
  if (bytesPerSecond >= 1e9) return fmt::format("{:.2f} GB/s", bytesPerSecond / 1e9);
  return fmt::format("{:.1f} MB/s", bytesPerSecond / 1e6);
}

struct Load {
  CheckReport report;
  double roundTrip = 0, bytesPerSecond = 0;
};

// Sends the same request several times. The summation rate comes from the bytes that the server
// sums between the first and the last answer.
Result<Load> queryLoad(ServerConnection& connection) {
  Load load;
  std::vector<double> times;
  const auto start = Clock::now();
  uint64_t before = 0;
  while (times.size() < kRoundTrips) {
    const auto asked = Clock::now();
    connection.send(MessageType::kCheck);
    load.report = BPS_TRY(connection.receive<CheckReport>());
    times.push_back(secondsSince(asked));
    if (times.size() == 1) before = load.report.bytesSummed;
    if (times.size() + 1 == kRoundTrips) std::this_thread::sleep_until(start + kLoadTime);
  }
  load.bytesPerSecond = static_cast<double>(load.report.bytesSummed - before) / secondsSince(start);
  std::sort(times.begin(), times.end());
  load.roundTrip = times[kRoundTrips / 2];
  return load;
}

Result<std::string> check(const std::string& name, const Key& key, const Env& env) {
  const ServerState state = BPS_TRY(checkServer(name, key, env));
  return fmt::format(
      "version {}, round trip {:.0f} us, {} of {} jobs, {} summed, {} MiB and {} descriptors free, data over {}",
      versionText(state.libraryVersion), state.roundTrip * 1e6, state.load.jobs, state.load.maxJobs,
      rateText(state.bytesPerSecond), state.load.freeBytes >> 20, state.load.freeDescriptors, state.transport);
}

}  // namespace

Result<ServerState> checkServer(const std::string& name, const Key& key, const Env& env) {
  const std::chrono::milliseconds answerTimeout(static_cast<int64_t>(env.timeout.value * 1000));
  const Credentials credentials{key, env.auth, static_cast<uint32_t>(answerTimeout.count())};
  const HostPort where = BPS_TRY(parseHostPort(name, kServerPort));
  const std::vector<Address> addresses = BPS_TRY(resolve(where, Deadline::in(answerTimeout)));
  const auto connection = BPS_TRY(ServerConnection::open(addresses, credentials, answerTimeout));
  const Offer offer = BPS_TRY(connection->receive<Offer>());
  const Load load = BPS_TRY(queryLoad(*connection));
  Result<std::string> data = checkDataPath(*connection, name, env);
  if (!data.ok()) {
    connection->leave();  // closes the session if the session is still open
    return std::move(data).status().within("it answers, but its data connections do not work");
  }
  return ServerState{offer.libraryVersion, load.report, load.roundTrip, load.bytesPerSecond, std::move(data).value()};
}

Result<bool> checkServers(const std::string& servers, std::string_view source, const Env& env) {
  BPS_TRY(cryptoInit());
  const Key key = BPS_TRY(serverKey(env));
  const std::vector<std::string> names = BPS_TRY(serverNames(servers, source));
  if (names.empty()) return Status(Code::kInvalidUsage, "no server to check: --check HOST:PORT, or BPS_SERVERS");
  std::vector<CheckResult> checked(names.size());
  const auto checkOne = [&](size_t i) {
    const Status ended = guarded([&]() -> Status {
      checked[i] = {BPS_TRY(check(names[i], key, env)), true};
      return {};
    });
    if (!ended.ok()) checked[i] = {ended.message(), false};
  };
  std::vector<std::jthread> threads;
  threads.reserve(names.size());
  for (size_t i = 0; i < names.size(); ++i) threads.emplace_back(checkOne, i);
  for (size_t i = 0; i < names.size(); ++i) {
    threads[i].join();
    fmt::print("{}  {}: {}\n", names[i], checked[i].ok ? "ok" : "FAILED", checked[i].text);
    std::fflush(stdout);
  }
  return std::all_of(checked.begin(), checked.end(), [](const CheckResult& each) { return each.ok; });
}

}  // namespace bps
