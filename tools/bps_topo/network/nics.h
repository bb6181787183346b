// What each NIC of this machine carries to another machine and back, where a bps-topo probe --listen is.
#pragma once
#include <string>
#include <vector>

#include "src/base/env.h"
#include "tools/bps_topo/probe.h"
#include "topo/topology_builder.h"

namespace bps {

// One NIC after the other; the slower way becomes the rate of the NIC in the draft. A NIC that cannot be measured
// stands in `measures` with the reason. Fails when the other machine cannot be asked at all.
Status probeNics(const std::string& peer, const Env& env, TopologyBuilder& builder, std::vector<ProbeResult>& results);

}  // namespace bps
