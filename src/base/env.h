// Every environment variable (BPS_*, and NCCL's where it says all there is to say): its default, accepted form, meaning
// and NCCL fallback, written once.
//
// parseEnv reads them strictly (a bad value is an error that names the variable, the value and what would be right);
// unknownVars finds typos; envMarkdown and envText make the README's table and `bps-topo --env`. getenv is called in
// env.cc and nowhere else in the libraries. Env is immutable after parsing and passed by const reference.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

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
  Bytes directBytes{Bytes::kMeasured};
  Bytes eagerBytes{Bytes::kMeasured};
  bool checksum = false;
  int channels = 1;
  int rails = 0;
  bool ignoreCpuAffinity = false;
  std::string strategy = "auto";
  std::string topoFile, ncclTopoFile;
  std::string topoDumpFile;
  std::string topoCounters;
  std::string netPlugin;
  std::string socketIfname;
  std::string portRange;  // as parsePortRange() takes it
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

  // Of the machine's topology; empty: the machine itself.
  const std::string& topologySource() const { return topoFile.empty() ? ncclTopoFile : topoFile; }
};

using EnvField = std::variant<Bytes Env::*, Seconds Env::*, Gbps Env::*, int Env::*, bool Env::*, std::string Env::*>;

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
Result<Env> parseEnv(Lookup lookup);
// The process's environment, parsed once per call; unknown BPS_* names are logged as warnings (once per process).
Result<Env> processEnv();
// Whether the process's environment gives the variable, or the NCCL variable that stands in for it.
bool envGives(std::string_view name);
std::vector<std::string> unknownVars(const char* const* environment);
std::string envMarkdown();
// One line per variable: name, value in force, where it came from.
std::string envText(Lookup lookup);

// "8", "64K", "1.5M", "2G": binary suffixes, as nccl-tests. Fails on anything else.
Result<uint64_t> parseBytes(std::string_view text);
Result<double> parseNumber(std::string_view text);

}  // namespace bps
