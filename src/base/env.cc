#include "src/base/env.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>

#include "src/base/env/value.h"
#include "src/base/format.h"
#include "src/base/io/socket.h"
#include "src/base/log.h"

namespace bps {
namespace {

constexpr double kK = 1024, kM = kK * 1024, kG = kM * 1024;

const EnvVar kEnvTable[] = {
    {"BPS_SERVERS", &Env::servers, "", "host:port[,host:port...] or @file", 0, 0,
     "Summation servers. A file has one server per line. bps looks at the file every second: added servers join, "
     "removed "
     "ones leave. Replace the file by a rename. Unset: no servers; the workers sum."},
    {"BPS_DISABLE", &Env::disable, "", "0 or 1", 0, 0,
     "1: the preload library passes every call to NCCL unchanged, whatever the other variables say."},
    {"BPS_REQUIRE_SERVERS", &Env::requireServers, "", "0 or 1", 0, 0,
     "1: a server that cannot be reached is an error, not a warning."},
    {"BPS_ROOT", &Env::root, "", "host:port", 0, 0,
     "Address of the rendezvous, which rank 0 serves; every unique id names it. Unset: the process that makes the id "
     "serves the rendezvous."},
    {"BPS_HOSTID", &Env::hostId, "NCCL_HOSTID", "text", 0, 0,
     "Ranks with the same text count as ranks of one machine. Unset: host name and boot id."},
    {"BPS_DEVICE", &Env::device, "", "auto, cuda or host", 0, 0,
     "Which memory may hold buffers. auto or unset: host memory, and CUDA devices if there are any. host: bps does not "
     "use CUDA, and the preload library passes every call to NCCL."},
    {"BPS_RANK", &Env::rank, "", "0 to 1048575", 0, kM - 1, "Rank of this process; set by bps-run."},
    {"BPS_NRANKS", &Env::nRanks, "", "1 to 1048576", 1, kM, "Number of ranks; set by bps-run."},
    {"BPS_PARTITION_BYTES", &Env::partitionBytes, "", "size, 4K to 1G", 4 * kK, kG,
     "Upper limit of the chunk size. Rank 0's value applies to all ranks."},
    {"BPS_DIRECT_BYTES", &Env::exchangeBytes, "", "size, 0 to 1G", 0, kG,
     "Calls up to this size take the exchange path: every machine gets all contributions and sums them. Rank 0's value "
     "applies to all ranks."},
    {"BPS_EAGER_BYTES", &Env::singleOwnerBytes, "", "size, 0 to 1G", 0, kG,
     "Calls up to this size take the single-owner path: the whole call goes to one owner, chosen round-robin. "
     "Rank 0's value applies to all ranks."},
    {"BPS_CHECKSUM", &Env::checksum, "", "0 or 1", 0, 1,
     "1: every chunk carries a CRC32C, which the receiver checks. Rank 0's value applies to all ranks."},
    {"BPS_RAILS", &Env::rails, "", "0 to 64", 0, 64,
     "Largest number of ranks of one machine that use the network. 0: chosen from the machines' topologies. Rank 0's "
     "value applies to all ranks."},
    {"BPS_IGNORE_CPU_AFFINITY", &Env::ignoreCpuAffinity, "NCCL_IGNORE_CPU_AFFINITY", "0 or 1", 0, 0,
     "1: bind the threads of bps to the CPUs near their GPU even if the process was started with a restricted CPU "
     "affinity."},
    {"BPS_STRATEGY", &Env::strategy, "", "auto, cpu_assisted, rooted, scatter or flat_ring", 0, 0,
     "How the ranks of one machine combine their buffers. For this and the next three variables, the value of the "
     "machine's lowest rank applies."},
    {"BPS_TOPO_FILE", &Env::topoFile, "", "path, or a machine in one line of text", 0, 0,
     "Topology to use instead of the detected one. The local ranks are mapped to its GPUs in order."},
    {"NCCL_TOPO_FILE", &Env::ncclTopoFile, "", "path", 0, 0,
     "As BPS_TOPO_FILE, which takes precedence; but ranks whose buffers are in host memory are not mapped to GPUs."},
    {"BPS_TOPO_DUMP_FILE", &Env::topoDumpFile, "NCCL_TOPO_DUMP_FILE", "path", 0, 0,
     "File to which the topology in use is written."},
    {"BPS_TOPO_COUNTERS", &Env::topoCounters, "",
     "path; %m machine number, %h host name, %p process id, %c number of the file within the process", 0, 0,
     "File to which the bytes that crossed each link of the machine are written when a communicator ends."},
    {"BPS_NET_PLUGIN", &Env::netPlugin, "NCCL_NET_PLUGIN", "path, or name as in libnccl-net-NAME.so", 0, 0,
     "NCCL net plugin that carries the data. Unset: libnccl-net-bps.so, which is part of bps."},
    {"BPS_SOCKET_IFNAME", &Env::socketIfname, "NCCL_SOCKET_IFNAME", "prefix,...  ^exclude  =exact  =address", 0, 0,
     "Network interfaces that TCP may use. Unset: all but lo, docker and virbr."},
    {"BPS_FABRIC", &Env::fabric, "",
     "bcube:n=N,k=K[,addresses=FILE][,address=DIGITS][,relay=PORT], or hypercube:k=K,...", 0, 0,
     "The network is a BCube: every machine has K NICs and reaches only its neighbours (docs/bcube.md)."},
    {"BPS_PORT_RANGE", &Env::portRange, "", "FIRST-LAST", 0, 0,
     "Ports on which ranks and servers listen, for data and control connections. Unset: the system chooses."},
    {"BPS_IB_HCA", &Env::ibHca, "NCCL_IB_HCA", "prefix[:port],...  ^exclude  =exact", 0, 0,
     "RDMA devices that verbs may use."},
    {"NCCL_IB_DISABLE", &Env::ibDisable, "", "0 or 1", 0, 0, "1: use TCP instead of RDMA devices."},
    {"NCCL_IB_GID_INDEX", &Env::ibGidIndex, "", "-1 to 1023", -1, 1023,
     "Index of the GID of an RDMA port. -1: on RoCE a v2 GID, IPv4 before IPv6; on InfiniBand the first GID."},
    {"NCCL_IB_TIMEOUT", &Env::ibTimeout, "", "1 to 31", 1, 31,
     "RDMA: an unacknowledged packet is sent again after 4.096 us times 2 to this power."},
    {"NCCL_IB_RETRY_CNT", &Env::ibRetryCount, "", "0 to 7", 0, 7,
     "RDMA: number of retransmissions before the connection fails."},
    {"NCCL_IB_TC", &Env::ibTrafficClass, "", "0 to 255", 0, 255, "RDMA: traffic class of packets."},
    {"NCCL_IB_SL", &Env::ibServiceLevel, "", "0 to 15", 0, 15, "RDMA: service level of packets."},
    {"BPS_GPUDIRECT", &Env::gpuDirect, "", "0 or 1", 0, 0,
     "0: GPU buffers are copied through host memory even if the NIC can access them (GPUDirect RDMA)."},
    {"BPS_IB_WRITE", &Env::ibWrite, "", "0 or 1", 0, 0,
     "0: RDMA uses SEND even if the device supports WRITE with immediate. Peers then never write into this process's "
     "memory."},
    {"NCCL_SHM_DISABLE", &Env::shmDisable, "", "0 or 1", 0, 0,
     "1: processes of one machine use the network devices, not shared memory (net plugin of bps)."},
    {"NCCL_SOCKET_NTHREADS", &Env::socketThreads, "", "1 to 16", 1, 16,
     "TCP: multiplier of NCCL_NSOCKS_PERTHREAD. No threads are started; the calling thread does all work."},
    {"NCCL_NSOCKS_PERTHREAD", &Env::socketsPerThread, "", "1 to 64", 1, 64,
     "TCP: sockets per connection (at most 64 after multiplication). The accepting side's value applies. Unset: "
     "depends on the device."},
    {"BPS_NCCL_LIB_PATH", &Env::ncclLibPath, "", "path", 0, 0,
     "Path of NVIDIA's libnccl.so.2, for the preload library and for the GPUs of one machine."},
    {"BPS_NCCL_MIN_BYTES", &Env::ncclMinBytes, "", "size, 0 to 1024G", 0, 1024 * kG,
     "Preload library: smaller all-reduces go to NCCL. Unset: measured at the first call. Rank 0's value applies to "
     "all "
     "ranks."},
    {"BPS_NCCL_LOCAL", &Env::ncclLocal, "", "exact, any or off", 0, 0,
     "Whether the GPUs of a machine combine buffers by NCCL. exact: only if the result has the same bits as without "
     "NCCL. any: in any order of summation. off: never. Unset: any for programs that call NCCL, exact for programs "
     "that call bpsAllReduce. Rank 0's value applies to all ranks; off on any rank applies to all."},
    {"BPS_TIMEOUT", &Env::timeout, "", "seconds, 0.5 to 86400", 0.5, 86400,
     "Time limit of start-up and of the detection of a dead or stopped peer."},
    {"BPS_STALENESS", &Env::staleness, "", "0 to 1000000000", 0, 1e9,
     "Asynchronous training: a push by which a rank is more than this many pushes ahead of the slowest rank waits. 0: "
     "all ranks push in step. Unset: no rank waits. Rank 0's value applies to all ranks."},
    {"BPS_SERVER_TIMEOUT", &Env::serverTimeout, "", "seconds, 0.5 to 86400", 0.5, 86400,
     "A server that is silent for this time, or for half of BPS_TIMEOUT if that is shorter, is lost: the calls go on "
     "without it. Rank 0's value applies to all ranks."},
    {"BPS_AUTH", &Env::auth, "", "on or off", 0, 0,
     "off: accept peers that do not prove that they know the key of the job or of the servers."},
    {"BPS_KEY_FILE", &Env::keyFile, "", "path of a file of at least 16 bytes", 0, 0,
     "File of the key shared with the servers; the key also protects a rendezvous at BPS_ROOT. bps-server --make-key "
     "writes such a file."},
    {"BPS_KEY_FILE_SHARED", &Env::keyFileShared, "", "0 or 1", 0, 0,
     "1: accept a key file that its group or others can read."},
    {"BPS_REDUCE_THREADS", &Env::reduceThreads, "", "1 to 256", 1, 256, "Threads that sum one large chunk."},
    {"BPS_CPU_TARGET", &Env::cpuTarget, "", "scalar, sse4, avx2, avx3, neon or sve", 0, 0,
     "Largest SIMD instruction set that summation may use. Unset: the best that the CPU supports."},
    {"BPS_BANDWIDTH", &Env::bandwidth, "", "Gbit/s, 0.001 to 10000", 0.001, 10000,
     "Bandwidth of this machine's NIC in each direction. Unset: all machines count as equal."},
    {"BPS_DEBUG", &Env::debug, "NCCL_DEBUG", "NONE, VERSION, WARN, INFO or TRACE", 0, 0, "Log level."},
    {"BPS_DEBUG_SUBSYS", &Env::debugSubsys, "NCCL_DEBUG_SUBSYS", "INIT,COLL,NET,SERVER,ENV,TOPO,ALL  ^exclude", 0, 0,
     "Subsystems whose INFO lines are logged. Unset: all."},
    {"BPS_DEBUG_FILE", &Env::debugFile, "NCCL_DEBUG_FILE", "path; %h host name, %p process id", 0, 0,
     "File to which the log is written. Unset: standard error."},
    {"BPS_LOG_FORMAT", &Env::logFormat, "", "text or json", 0, 0,
     "Format of the lines of the log. json: one object per line, with time, host, pid, thread, level, subsystem and "
     "text."},
    {"BPS_METRICS", &Env::metrics, "", "ADDR:PORT", 0, 0,
     "Address on which this process serves metrics in Prometheus' text format. A process adds its place among the "
     "processes of its machine to the port: 0, 1, 2 ... Port 0: the system chooses. Unset: no metrics. bps-server has "
     "the option --metrics instead."},
    {"BPS_DUMP_SIGNAL", &Env::dumpSignal, "", "USR1, USR2 or none", 0, 0,
     "Signal after which a rank logs the state of its calls. Has no effect if the application handles this signal."},
    {"BPS_TRACE", &Env::trace, "", "path; %r rank or server, %h host name, %p process id", 0, 0,
     "File to which a rank or server writes the time of every stage of its calls, for bps-trace. It writes the file "
     "when "
     "the communicator or the process ends. The path must contain %r or %p."},
};

struct RawValue {
  const char* text = nullptr;
  std::string_view source;
};

RawValue rawValueOf(const EnvVar& var, Lookup lookup) {
  if (const char* text = lookup(std::string(var.name).c_str())) return {text, var.name};
  if (var.fallback.empty()) return {};
  if (const char* text = lookup(std::string(var.fallback).c_str())) return {text, var.fallback};
  return {};
}

Status parseOne(const EnvVar& var, const RawValue& setting, Env& env) {
  const bool own = setting.source.starts_with("BPS_");
  Status status = own ? parseBpsValue(var, setting.text, env) : parseNcclValue(var, setting.text, env);
  if (!status.ok())
    return failure(Code::kInvalidArgument, "{}={}: {} (accepts {})", setting.source, setting.text, status.message(),
                   var.accepts);
  if (setting.source != var.name) env.fromNccl.emplace_back(var.name, setting.source);
  return {};
}

// Returns the error of a value, or empty text if the value is valid.
std::string valueError(const EnvVar& var, const RawValue& setting) {
  Env env;
  if (const Status parsed = parseOne(var, setting, env); !parsed.ok()) return parsed.message();
  if (var.name != "BPS_DEBUG_SUBSYS") return {};
  std::string unknown;
  for (const std::string& word : unknownSubsystems(setting.text)) unknown += (unknown.empty() ? "" : ", ") + word;
  if (unknown.empty()) return {};
  return fmt::format("{}={}: unknown subsystem {} (accepts {})", setting.source, setting.text, unknown, var.accepts);
}

std::string show(Bytes value) { return value.value == Bytes::kMeasured ? "measured" : fmt::format("{}", value.value); }
std::string show(Seconds value) { return fmt::format("{:g}", value.value); }
std::string show(Gbps value) { return value.value == 0 ? "" : fmt::format("{:g}", value.value); }
std::string show(PortRange value) { return value.first == 0 ? "" : fmt::format("{}-{}", value.first, value.last); }
std::string show(int value) { return value < 0 ? "" : fmt::format("{}", value); }
std::string show(bool value) { return value ? "1" : "0"; }
std::string show(const std::string& value) { return value; }

std::string escaped(std::string_view text) {
  std::string out;
  for (char c : text) (c == '|' ? out += "\\|" : out += c);
  return out;
}

const char* systemLookup(const char* name) { return ::getenv(name); }

}  // namespace

Lookup processLookup() { return systemLookup; }

std::span<const EnvVar> envTable() { return kEnvTable; }

std::string_view Env::nameInUse(std::string_view ours) const {
  for (const auto& [name, source] : fromNccl)
    if (name == ours) return source;
  return ours;
}

Result<Env> parseEnv(Lookup lookup, std::vector<std::string>* warnings) {
  Env env;
  for (const EnvVar& var : kEnvTable) {
    const RawValue setting = rawValueOf(var, lookup);
    if (setting.text == nullptr) continue;
    Status parsed = parseOne(var, setting, env);
    if (!parsed.ok() && setting.source.starts_with("BPS_")) return parsed;
    const std::string wrong = valueError(var, setting);
    if (warnings != nullptr && !wrong.empty()) warnings->push_back(wrong + (parsed.ok() ? "" : "; using the default"));
  }
  return env;
}

Result<Env> processEnv(EnvWarning warn) {
  std::vector<std::string> warnings;
  Result<Env> parsed = parseEnv(systemLookup, &warnings);
  for (const std::string& name : unknownVars(environ)) warnings.push_back(describeUnknown(name));
  static std::atomic<bool> warned{false};
  if (warned.exchange(true)) warnings.clear();
  // An unknown or ignored variable may have caused the error, so its warning is written before the
  // function fails. The log is not configured yet, so these warnings go to standard error.
  if (!parsed.ok())
    for (const std::string& text : warnings) warn(text);
  Env env = BPS_TRY(std::move(parsed));
  logInit(env);
  for (const std::string& text : warnings) warn(text);
  return env;
}

bool isEnvSet(std::string_view name) {
  return std::any_of(std::begin(kEnvTable), std::end(kEnvTable), [&](const EnvVar& var) {
    return var.name == name && rawValueOf(var, systemLookup).text != nullptr;
  });
}

void logEnvWarning(const std::string& text) { logWarn(Subsystem::kEnv, "{}", text); }

bool preloadDisabled(Lookup lookup) {
  Env env;
  for (const EnvVar& var : kEnvTable) {
    if (var.name != "BPS_DISABLE" && var.name != "BPS_DEVICE") continue;
    const RawValue setting = rawValueOf(var, lookup != nullptr ? lookup : systemLookup);
    if (setting.text != nullptr) [[maybe_unused]]
      const Status read = parseOne(var, setting, env);
  }
  return env.disable || env.device == "host";
}

std::vector<std::string> unknownVars(const char* const* environment) {
  std::vector<std::string> unknown;
  for (; environment != nullptr && *environment != nullptr; ++environment) {
    std::string_view entry(*environment);
    std::string_view name = entry.substr(0, entry.find('='));
    if (name.substr(0, 4) != "BPS_") continue;
    const bool known =
        std::any_of(std::begin(kEnvTable), std::end(kEnvTable), [&](const EnvVar& var) { return var.name == name; });
    if (!known) unknown.emplace_back(name);
  }
  return unknown;
}

std::string describeUnknown(const std::string& name) {
  std::vector<std::string_view> names;
  for (const EnvVar& var : kEnvTable)
    if (var.name.starts_with("BPS_")) names.push_back(var.name);
  const std::string meant = closestName(name, names);
  return fmt::format("{} is not a variable of bps{}", name,
                     meant.empty() ? " (bps-topo --env lists them)" : ": did you mean " + meant + "?");
}

std::string envMarkdown() {
  const Env defaults;
  std::string text = "| Variable | Default | Accepts | Meaning |\n|---|---|---|---|\n";
  for (const EnvVar& var : kEnvTable) {
    const std::string value = std::visit([&](auto field) { return show(defaults.*field); }, var.field);
    text +=
        fmt::format("| `{}` | {} | {} | {}{} |\n", var.name, value.empty() ? "unset" : value, escaped(var.accepts),
                    escaped(var.doc), var.fallback.empty() ? "" : fmt::format(" Falls back to `{}`.", var.fallback));
  }
  return text;
}

EnvText envText(Lookup lookup, const char* const* environment) {
  EnvText table;
  const Env defaults;
  for (const EnvVar& var : kEnvTable) {
    const RawValue setting = rawValueOf(var, lookup != nullptr ? lookup : systemLookup);
    std::string value = setting.text != nullptr
                            ? setting.text
                            : std::visit([&](auto field) { return show(defaults.*field); }, var.field);
    const std::string source = setting.text == nullptr      ? "default"
                               : setting.source == var.name ? "environment"
                                                            : std::string(setting.source);
    const std::string wrong = setting.text != nullptr ? valueError(var, setting) : std::string();
    table.wrong += wrong.empty() ? 0 : 1;
    table.text += fmt::format("{:<22} {:<14} {:<12} {}{}\n", var.name, value.empty() ? "(unset)" : value, source,
                              wrong.empty() ? "" : "WRONG: " + wrong + ". ", var.doc);
  }
  for (const std::string& name : unknownVars(environment != nullptr ? environment : environ)) {
    table.text += fmt::format("{:<22} UNKNOWN: {}\n", name, describeUnknown(name));
    ++table.wrong;
  }
  return table;
}

}  // namespace bps
