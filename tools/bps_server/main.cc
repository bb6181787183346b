// bps-server: a summation server. bps-server serves any number of jobs until SIGTERM, and then ends
// after its last running job.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "cpu_reduce/dispatch.h"
#include "src/base/env.h"
#include "src/base/format.h"
#include "src/base/guard.h"
#include "src/base/io/interfaces.h"
#include "src/base/io/socket.h"
#include "src/base/log.h"
#include "src/control/keys/key_file.h"
#include "src/metrics/metrics_server.h"
#include "src/server/control_server.h"
#include "src/server/job_threads.h"
#include "src/trace/recorder.h"
#include "tools/bps_server/check/check.h"
#include "tools/bps_server/cpu_list.h"
#include "tools/bps_server/service/liveness.h"
#include "tools/bps_server/service/metrics_page.h"
#include "tools/bps_server/signals.h"
#include "tools/bps_server/status/status.h"
#include "tools/command_line/command_line.h"
#include "tools/command_line/listen_address.h"

namespace bps {
namespace {

constexpr uint16_t kDefaultPort = 7700;

struct Options {
  std::string listen;
  std::string keyFile;
  std::string makeKey;
  size_t threads = 0;
  std::string cpus;
  std::string metrics;
  std::string check;
  std::string status;
  bool json = false;
  std::string dataPorts;
};

// Returns the address of --listen. Without --listen, returns the address of the first usable
// interface.
Result<Address> listenAddressOf(const std::string& text, const Env& env) {
  if (!text.empty()) return listenAddress({"--listen", text, kDefaultPort});
  Address address = BPS_TRY(selectInterfaces(env.socketIfname)).front().address;
  address.setPort(kDefaultPort);
  return address;
}

// Adds the name of the option to a failure.
template <class T>
Result<T> named(const std::string& option, Result<T> outcome) {
  if (outcome.ok() || option.ends_with(' ')) return outcome;
  return std::move(outcome).status().within(option);
}

// Sets environment variables for the net plugin and other libraries, which read these variables
// themselves.
Status configureEnv(const Options& options, const Address& address, Env& env) {
  if (!options.dataPorts.empty()) {
    env.portRange = BPS_TRY(named("--data-ports", parsePortRange(options.dataPorts)));
    ::setenv("BPS_PORT_RANGE", options.dataPorts.c_str(), 1);
  }
  // Data connections use the interface of the control address, unless the user has chosen
  // interfaces.
  if (!options.listen.empty() && !address.isAny() && env.socketIfname.empty()) {
    env.socketIfname = "=" + address.host();
    ::setenv("BPS_SOCKET_IFNAME", env.socketIfname.c_str(), 1);
  }
  return {};
}

Status serve(const Options& options) {
  SignalHandler::block();
  Env env = BPS_TRY(processEnv());
  if (!isEnvSet("BPS_DEBUG")) logOnlySubsystem(Subsystem::kServer);
  logThreadName("server");
  if (!options.keyFile.empty()) env.keyFile = options.keyFile;
  BPS_TRY(cpu::chooseTarget(env.cpuTarget));
  logInfo(Subsystem::kInit, "sums by CPU kernels {}", cpu::describeKernels());
  BPS_TRY(trace::checkPattern(env.trace));
  const Key key = BPS_TRY(serverKey(env));
  ServiceManager manager = BPS_TRY(ServiceManager::fromEnv());
  const std::vector<int> cpus = BPS_TRY(parseCpuList(options.cpus));
  const Address address = BPS_TRY(listenAddressOf(options.listen, env));
  BPS_TRY(configureEnv(options, address, env));
  const size_t threads =
      options.threads > 0 ? options.threads : std::min(4U, std::max(1U, std::thread::hardware_concurrency()));

  const auto runner = BPS_TRY(JobThreads::start(env, threads, cpus));
  const auto server =
      BPS_TRY(named("--listen " + options.listen, server::ControlServer::create(env, address, key, *runner)));
  Liveness liveness(*server);
  std::unique_ptr<MetricsServer> metrics;
  if (!options.metrics.empty()) {
    const Address where = BPS_TRY(listenAddress({"--metrics", options.metrics}));
    const HttpPages pages{[&] { return metricsPage(*server, *runner); }, [&] { return liveness.check(); },
                          [&] { return std::string(server->draining() ? "the server is draining" : ""); }};
    metrics = BPS_TRY(named("--metrics " + options.metrics, MetricsServer::serve(where, pages)));
    std::printf("metrics on %s\n", metrics->address().text().c_str());
  }
  std::printf("listening on %s\n", server->address().text().c_str());
  std::fflush(stdout);
  const auto status = [&] {
    const uint32_t jobs = runner->load().jobs;
    return fmt::format("{} {} job{}", server->draining() ? "draining," : "serving", jobs, jobs == 1 ? "" : "s");
  };
  const SignalHandler signals(*server, [&env] { return serverKey(env); },
                              {std::move(manager), status, [&] { return liveness.check(); }});
  return server->run();
}

Status printStatus(const Options& options) {
  Env env = BPS_TRY(processEnv());
  if (!options.keyFile.empty()) env.keyFile = options.keyFile;
  return printServerStatus(options.status, options.json, env);
}

// Checks the servers and returns the exit status.
Result<int> check(const Options& options) {
  Env env = BPS_TRY(processEnv());
  if (!options.keyFile.empty()) env.keyFile = options.keyFile;
  const bool named = !options.check.empty();
  return BPS_TRY(checkServers(named ? options.check : env.servers, named ? "--check" : "BPS_SERVERS", env)) ? 0 : 1;
}

int run(int argc, char** argv) {
  CommandLine line("bps-server", "A summation server. Ends after SIGTERM, once its jobs are done.");
  Options options;
  line.option("--listen", options.listen, "ADDR:PORT to listen on (default: first usable interface, port 7700)");
  line.option("--key-file", options.keyFile, "file with the key that the workers also use (default: BPS_KEY_FILE)");
  line.option("--make-key", options.makeKey, "write a new random key to this file (mode 0600) and exit");
  line.option("--threads", options.threads, "summation threads (default: up to 4)", ValueRange{1, 256});
  line.option("--cpus", options.cpus, "CPUs for the summation threads, for example 0,2-5");
  line.option("--metrics", options.metrics, "ADDR:PORT on which to serve metrics in Prometheus' text format");
  line.option("--data-ports", options.dataPorts, "FIRST-LAST: ports to listen on for data (default: BPS_PORT_RANGE)");
  line.optionalValue("--check", options.check,
                     "check the servers HOST:PORT[,HOST:PORT...] or @file (default: BPS_SERVERS) and exit. "
                     "Prints a line per server; status 0 if all are usable");
  line.option("--status", options.status, "print the jobs of the server HOST[:PORT] and their calls, and exit");
  line.flag("--json", options.json, "with --status: print JSON");
  if (const std::optional<int> status = line.parse(argc, argv)) return *status;
  const char* only = nullptr;
  for (const char* name : {"--status", "--check", "--make-key"})
    if (line.has(name)) only = name;
  if (only != nullptr) {
    const std::string why = fmt::format("has no effect with {}, which serves nothing", only);
    Status fits = line.refuse({"--listen", "--threads", "--cpus", "--metrics", "--data-ports"}, why);
    if (fits.ok() && line.has("--make-key")) fits = line.refuse({"--check", "--key-file"}, why);
    if (fits.ok() && only != std::string_view("--status")) fits = line.refuse({"--status", "--json"}, why);
    if (!fits.ok()) return line.printUsageError(fits.message());
  } else if (options.json) {
    return line.printUsageError("--json has no effect without --status");
  }
  int unwell = 0;
  const Status status = guarded([&]() -> Status {
    if (line.has("--make-key")) return makeKeyFile(options.makeKey);
    if (line.has("--status")) return printStatus(options);
    if (!line.has("--check")) return serve(options);
    unwell = BPS_TRY(check(options));
    return {};
  });
  if (status.ok()) return unwell;
  std::fprintf(stderr, "bps-server: %s\n", status.message());
  return 1;
}

}  // namespace
}  // namespace bps

int main(int argc, char** argv) { return bps::run(argc, argv); }
