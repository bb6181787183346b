// Measures the rate of each NIC of this machine to and from another machine, which runs bps-topo
// probe --listen.
#pragma once
#include <string>
#include <vector>

#include "src/base/env.h"
#include "tools/bps_topo/probe.h"
#include "topo/topology_builder.h"

namespace bps {

// Measures the NICs one after another. Sets the rate of each NIC in `builder` to the rate of its
// slower direction. If a NIC cannot be measured, `results` contains the reason. Fails if the other
// machine cannot be reached at all.
Status probeNics(const std::string& peer, const Env& env, TopologyBuilder& builder, std::vector<ProbeResult>& results);

}  // namespace bps
