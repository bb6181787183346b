// bps-topo probe: measures the rates of this machine's memory, devices and NICs, and reports why others are not
// measured.
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
  bool failed = false;        // it was requested but could not be measured
};

// Measures memory, NICs and devices and writes the rates into `builder`. Takes a few seconds and uses all CPUs. `peer`
// is the address of a bps-topo probe --listen to measure the NICs with; empty: the NICs are not measured.
Result<std::vector<ProbeResult>> probeMachine(TopologyBuilder& builder, const Env& env, const std::string& peer);
ProbeResult summarise(std::string what, std::vector<double> rates, std::string note);
std::string probeText(const std::vector<ProbeResult>& results);
std::string probeJson(const std::vector<ProbeResult>& results);

// Measures the CUDA devices that BPS_DEVICE allows: host memory to device, device to host, device to device.
void probeDevices(TopologyBuilder& builder, const Env& env, std::vector<ProbeResult>& results);

// Measures one TCP connection from this process to itself over the loopback interface. 0 bytes/s if it fails.
ProbeResult probeLoopback();

}  // namespace bps
