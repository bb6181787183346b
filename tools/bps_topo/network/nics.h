// Measures the rate of each NIC of this machine to and from another machine that runs bps-topo probe --listen.
#pragma once
#include <string>
#include <vector>

#include "src/base/env.h"
#include "tools/bps_topo/probe.h"
#include "topo/topology_builder.h"

namespace bps {

// Measures one NIC after the other and sets its rate in `builder` to the slower direction. If a NIC cannot be measured,
// `results` holds the reason. Fails if the other machine cannot be reached at all.
Status probeNics(const std::string& peer, const Env& env, TopologyBuilder& builder, std::vector<ProbeResult>& results);

}  // namespace bps
