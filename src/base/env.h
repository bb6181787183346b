// Env: the values of all environment variables that bps reads (BPS_* and some of NCCL's). One
// table, envTable(), holds the accepted form, the meaning and the NCCL fallback of each variable.
// The parser and the documentation use this table.
//
// An invalid value of a BPS_ variable is an error that names the variable, the value and the
// accepted form. NCCL's variables are parsed as NCCL parses them. An invalid value of an NCCL
// variable causes a warning, and the default applies. In the libraries of bps, only env.cc calls
// getenv. Env does not change after parsing and is passed by const reference.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "src/base/env/port_range.h"
#include "src/base/status.h"

namespace bps {

struct Bytes {
  static constexpr uint64_t kMeasured = UINT64_MAX;  // the variable is unset, so bps measures the best value
  uint64_t value = 0;
};
struct Seconds {
  double value = 0;
};
struct Gbps {
  double value = 0;  // 0: unset
};

struct Env {  // the initial values of the members are the defaults
  std::string servers;
  bool disable = false;
  bool requireServers = false;
  std::string root;
  std::string hostId;
  std::string device;
  int rank = -1;
  int nRanks = -1;
  Bytes partitionBytes{4U << 20};
  Bytes exchangeBytes{Bytes::kMeasured};
  Bytes singleOwnerBytes{Bytes::kMeasured};
  bool checksum = false;
  int rails = 0;
  bool ignoreCpuAffinity = false;
  std::string strategy = "auto";
  std::string topoFile, ncclTopoFile;
  std::string topoDumpFile;
  std::string topoCounters;
  std::string netPlugin;
  std::string socketIfname;
  std::string fabric;
  PortRange portRange;
  std::string ibHca;
  bool ibDisable = false;
  int ibGidIndex = -1;
  int ibTimeout = 20;
  int ibRetryCount = 7;
  int ibTrafficClass = 0;
  int ibServiceLevel = 0;
  bool ibWrite = true;
  bool gpuDirect = true;
  bool shmDisable = false;
  int socketThreads = -1;
  int socketsPerThread = -1;
  std::string ncclLibPath;
  Bytes ncclMinBytes{Bytes::kMeasured};
  std::string ncclLocal;  // empty: exact; any in the preload library
  Seconds timeout{10};
  Seconds serverTimeout{2};
  int staleness = -1;  // -1: unbounded
  bool auth = true;
  std::string keyFile;
  bool keyFileShared = false;
  int reduceThreads = 1;
  std::string cpuTarget;
  Gbps bandwidth;
  std::string debug = "WARN";
  std::string debugSubsys;
  std::string debugFile;
  std::string logFormat = "text";
  std::string metrics;
  std::string dumpSignal = "USR1";
  std::string trace;

  // The values that came from an NCCL variable: the BPS_ name, and the name of the NCCL variable.
  std::vector<std::pair<std::string_view, std::string_view>> fromNccl;

  // Returns the name of the variable that the value came from: `ours`, or its NCCL fallback.
  std::string_view nameInUse(std::string_view ours) const;
  // Returns the path of the topology file, or empty text if the topology is detected.
  const std::string& topologySource() const { return topoFile.empty() ? ncclTopoFile : topoFile; }
};

using EnvField = std::variant<Bytes Env::*, Seconds Env::*, Gbps Env::*, PortRange Env::*, int Env::*, bool Env::*,
                              std::string Env::*>;

struct EnvVar {
  std::string_view name;
  EnvField field;
  std::string_view fallback;  // the NCCL variable that is read when this one is unset; may be empty
  std::string_view accepts;
  double least, most;  // limits of a number; `most` = 0 means no limits
  std::string_view doc;
};

std::span<const EnvVar> envTable();

using Lookup = const char* (*)(const char*);
Lookup processLookup();
// Appends to `warnings` one line for each invalid value that is ignored.
Result<Env> parseEnv(Lookup lookup, std::vector<std::string>* warnings = nullptr);
using EnvWarning = void (*)(const std::string& text);
void logEnvWarning(const std::string& text);
// Parses the environment of the process and configures the log. The first call passes the warnings of parseEnv(), and
// a warning for each unknown BPS_ variable, to `warn`.
Result<Env> processEnv(EnvWarning warn = logEnvWarning);
// True if the variable or its NCCL fallback is set in the environment of the process.
bool isEnvSet(std::string_view name);
// True if the preload library passes every call to NCCL, because of BPS_DISABLE=1 or
// BPS_DEVICE=host. Errors in other variables do not matter. If `lookup` is null, reads the
// environment of the process.
bool preloadDisabled(Lookup lookup = nullptr);
std::vector<std::string> unknownVars(const char* const* environment);
// Returns a text such as "NAME is not a variable of bps: did you mean OTHER?"
std::string describeUnknown(const std::string& name);
std::string envMarkdown();
// The result of envText(): one line per variable with its name, its value and the source of the value. Invalid values
// and unknown variables are marked and counted.
struct EnvText {
  std::string text;
  size_t wrong = 0;
};
// If an argument is null, the function reads the environment of the process.
EnvText envText(Lookup lookup, const char* const* environment);

// Parses sizes such as "8", "64K", "1.5M" and "2G". The suffixes are powers of 1024, as in
// nccl-tests. Fails on any other text.
Result<uint64_t> parseBytes(std::string_view text);
Result<double> parseNumber(std::string_view text);

}  // namespace bps
