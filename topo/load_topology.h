// Loads a Topology from a file, from a line of text, or from this machine. Any thread may call these functions.
#pragma once
#include <string>

#include "src/base/status.h"
#include "topo/topology_builder.h"

namespace bps {

struct Env;

// `source` is the path of an NCCL or hwloc XML file, or a synthetic machine (topo/synthetic.h). If it is empty, this
// machine is detected. A failure names the source, the line and the reason.
Result<Topology> loadTopology(const std::string& source);
// Returns the builder instead, so that the caller can add what it knows before it calls build().
Result<TopologyBuilder> loadTopologyBuilder(const std::string& source);

// Loads the topology that BPS_TOPO_FILE names. If BPS_TOPO_DUMP_FILE is set, writes the result there as NCCL XML.
Result<Topology> loadAndDumpTopology(const Env& env);
// Loads the same topology but does not write BPS_TOPO_DUMP_FILE.
Result<Topology> loadConfiguredTopology(const Env& env);

Status writeTopology(const Topology& topology, const std::string& path);

}  // namespace bps
