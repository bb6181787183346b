// Loads a Topology from a file, from a line of text, or from this machine. Any thread may call these functions.
#pragma once
#include <string>

#include "src/base/status.h"
#include "topo/topology_builder.h"

namespace bps {

struct Env;

// `source` is the path of an NCCL or hwloc XML file, or the text of a synthetic machine
// (topo/synthetic.h). If `source` is empty, this machine is detected. A failure names the source,
// the line and the reason.
Result<Topology> loadTopology(const std::string& source);
// Like loadTopology(), but returns the builder, so that the caller can add rates or devices before
// it calls build().
Result<TopologyBuilder> loadTopologyBuilder(const std::string& source);

// Loads the topology that BPS_TOPO_FILE names, or detects this machine. If BPS_TOPO_DUMP_FILE is
// set, writes the topology to that file as NCCL XML.
Result<Topology> loadAndDumpTopology(const Env& env);
// Like loadAndDumpTopology(), but writes no file.
Result<Topology> loadConfiguredTopology(const Env& env);

Status writeTopology(const Topology& topology, const std::string& path);

}  // namespace bps
