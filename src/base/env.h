// Every environment variable (BPS_*, and NCCL's where it says all there is to say): its default, accepted form, meaning
// and NCCL fallback, written once.
//
// A bad value of a BPS_ variable is an error that names the variable, the value and what would be right. NCCL's
// variables are read as NCCL reads them; a value that bps cannot use gives a warning, and the default holds. getenv is
// called in env.cc and nowhere else in the libraries. Env is immutable after parsing and passed by const reference.
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
  static constexpr uint64_t kMeasured = UINT64_MAX;  // not given: found by measuring
  uint64_t value = 0;
};
struct Seconds {
  double value = 0;
};
struct Gbps {
  double value = 0;  // 0: not given
};

struct Env {  // defaults live here and nowhere else
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
  std::string ncclLocal = "exact";
  Seconds timeout{10};
  bool auth = true;
  std::string keyFile;
  bool keyFileShared = false;
  int reduceThreads = 1;
  std::string cpuTarget;
  Gbps bandwidth;
  std::string debug = "WARN";
  std::string debugSubsys;
  std::string debugFile;

  // The settings that came from an NCCL variable: ours, and NCCL's name.
  std::vector<std::pair<std::string_view, std::string_view>> fromNccl;

  // The variable that gave the setting: `ours`, or the NCCL variable that stood in for it.
  std::string_view nameInUse(std::string_view ours) const;
  // Of the machine's topology; empty: the machine itself.
  const std::string& topologySource() const { return topoFile.empty() ? ncclTopoFile : topoFile; }
};

using EnvField = std::variant<Bytes Env::*, Seconds Env::*, Gbps Env::*, PortRange Env::*, int Env::*, bool Env::*,
                              std::string Env::*>;

struct EnvVar {
  std::string_view name;
  EnvField field;
  std::string_view fallback;  // an NCCL variable that is read when ours is unset, or empty
  std::string_view accepts;
  double least, most;  // bounds of numbers
  std::string_view doc;
};

std::span<const EnvVar> envTable();

using Lookup = const char* (*)(const char*);
Lookup processLookup();
// `warnings` gets a line for each value that is wrong but does no harm.
Result<Env> parseEnv(Lookup lookup, std::vector<std::string>* warnings = nullptr);
using EnvWarning = void (*)(const std::string& text);
void logEnvWarning(const std::string& text);
// The process's environment, parsed once per call. The first call hands what parseEnv() warns of, and unknown BPS_
// names, to `warn`.
Result<Env> processEnv(EnvWarning warn = logEnvWarning);
// Whether the process's environment gives the variable, or the NCCL variable that stands in for it.
bool isEnvSet(std::string_view name);
// BPS_DISABLE or BPS_DEVICE=host: the preload library passes every call on. Both are read by themselves, whatever else
// is wrong in the environment. Without a lookup: of the process.
bool preloadDisabled(Lookup lookup = nullptr);
std::vector<std::string> unknownVars(const char* const* environment);
// "NAME is not a variable of bps: did you mean OTHER?"
std::string describeUnknown(const std::string& name);
std::string envMarkdown();
// One line per variable: name, value in force, where it came from; what is wrong or unknown is marked and counted.
// Null: of the process.
struct EnvText {
  std::string text;
  size_t wrong = 0;
};
EnvText envText(Lookup lookup, const char* const* environment);

// "8", "64K", "1.5M", "2G": binary suffixes, as nccl-tests. Fails on anything else.
Result<uint64_t> parseBytes(std::string_view text);
Result<double> parseNumber(std::string_view text);

}  // namespace bps
