#include "topo/load_topology.h"

#include <sys/stat.h>

#include <cerrno>
#include <fstream>
#include <sstream>

#include "src/base/env.h"
#include "src/base/format.h"
#include "src/base/log.h"
#include "topo/detect/detect.h"
#include "topo/synthetic.h"
#include "topo/xml/topology_xml.h"

namespace bps {
namespace {

Result<std::string> contentOf(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return systemFailure("cannot be read", errno);
  if (!S_ISREG(status.st_mode)) return Status(Code::kInvalidArgument, "is not a file");
  if (static_cast<size_t>(status.st_size) > kMaxXmlBytes)
    return failure(Code::kInvalidArgument, "has {} bytes, more than {}", status.st_size, kMaxXmlBytes);
  std::ifstream file(path, std::ios::binary);
  std::stringstream content;
  content << file.rdbuf();
  if (!file.good()) return systemFailure("cannot be read", errno);
  return content.str();
}

Result<TopologyBuilder> read(const std::string& source) {
  if (source.empty()) return detectMachine();
  if (isSyntheticText(source)) return readSynthetic(source);
  const std::string content = BPS_TRY(contentOf(source));
  TopologyBuilder builder = BPS_TRY(readMachineXml(content));
  // Topology files from cloud providers omit NVLinks. Add the NVLinks that NVML reports; bus ids
  // identify the GPUs.
  if (builder.nvlinks().empty()) addNvml(builder, kNvmlLibrary);
  return builder;
}

Status within(const std::string& source, Status status) {
  return std::move(status).within(source.empty() ? "this machine" : "topology " + source);
}

}  // namespace

Result<TopologyBuilder> loadTopologyBuilder(const std::string& source) {
  auto builder = read(source);
  if (!builder.ok()) return within(source, std::move(builder).status());
  return builder;
}

Result<Topology> loadTopology(const std::string& source) {
  auto made = BPS_TRY(loadTopologyBuilder(source)).build();
  if (!made.ok()) return within(source, std::move(made).status());
  return made;
}

Result<Topology> loadConfiguredTopology(const Env& env) {
  Result<Topology> topology = loadTopology(env.topologySource());
  if (topology.ok() || !env.topoFile.empty() || env.ncclTopoFile.empty()) return topology;
  logWarn(Subsystem::kTopo, "NCCL_TOPO_FILE: {}; using the detected topology of this machine instead",
          topology.error().message());
  return loadTopology({});
}

Result<Topology> loadAndDumpTopology(const Env& env) {
  Topology topology = BPS_TRY(loadConfiguredTopology(env));
  if (env.topoDumpFile.empty()) return topology;
  Status written = writeTopology(topology, env.topoDumpFile);
  const std::string_view variable = env.nameInUse("BPS_TOPO_DUMP_FILE");
  if (!written.ok() && variable.starts_with("BPS_")) return written;
  if (!written.ok()) logWarn(Subsystem::kTopo, "{}: {}", variable, written.message());
  return topology;
}

Status writeTopology(const Topology& topology, const std::string& path) {
  errno = 0;
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << writeNcclXml(topology) << std::flush;
  if (!file.good()) return systemFailure("topology " + path + " cannot be written", errno);
  return {};
}

}  // namespace bps
