// bps-topo probe: measures what can be measured here, and says what cannot and why.
#pragma once
#include <string>
#include <vector>

#include "src/base/env.h"
#include "topo/topology_builder.h"

namespace bps {

struct ProbeResult {
  std::string what;
  double bytesPerSecond = 0;  // the median; 0: not measured
  double spread = 0;          // (most - least) / median
  std::string note;           // why it was not measured, or what the number means
  bool failed = false;        // not measured though it was asked for
};

// Writes what it measures of memory, NICs and devices into the draft. Takes a few seconds and all CPUs. `peer`: where a
// bps-topo probe --listen is, to measure the NICs with; empty: they are not measured.
Result<std::vector<ProbeResult>> probeMachine(TopologyBuilder& builder, const Env& env, const std::string& peer);
ProbeResult summarise(std::string what, std::vector<double> rates, std::string note);
std::string probeText(const std::vector<ProbeResult>& results);
std::string probeJson(const std::vector<ProbeResult>& results);

// Of the CUDA devices that BPS_DEVICE allows: host memory to device and back, and device to device.
void probeDevices(TopologyBuilder& builder, const Env& env, std::vector<ProbeResult>& results);

// One TCP connection from this process to itself over the loopback interface; 0 when it cannot be had.
ProbeResult probeLoopback();

}  // namespace bps
