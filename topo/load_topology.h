// Where the topology comes from: a file, a line of text, or this machine.
#pragma once
#include <string>

#include "src/base/status.h"
#include "topo/topology_builder.h"

namespace bps {

struct Env;

// `source` is the path of an NCCL or hwloc XML file, or a synthetic machine (topo/synthetic.h); empty: this machine. A
// failure names the source, the line and the reason.
Result<Topology> loadTopology(const std::string& source);
// The same before it is built, for who knows more about it.
Result<TopologyBuilder> loadTopologyBuilder(const std::string& source);

// By BPS_TOPO_FILE. Writes what it gives to BPS_TOPO_DUMP_FILE, in NCCL's form, where that is set.
Result<Topology> loadAndDumpTopology(const Env& env);
// The same without writing BPS_TOPO_DUMP_FILE.
Result<Topology> loadConfiguredTopology(const Env& env);

Status writeTopology(const Topology& topology, const std::string& path);

}  // namespace bps
