// bps-topo probe: measures the rates of the memory, devices and NICs of this machine. If a rate is
// not measured, the output gives the reason.
#pragma once
#include <string>
#include <vector>

#include "src/base/env.h"
#include "topo/topology_builder.h"

namespace bps {

struct ProbeResult {
  std::string what;
  double bytesPerSecond = 0;  // the median rate, or 0 if the rate was not measured
  double spread = 0;          // (most - least) / median of the rates
  std::string note;           // why the rate was not measured, or what the rate means
  bool failed = false;        // the user requested the measurement, but it failed
};

// Measures the memory, NICs and devices, and writes the rates into `builder`. Takes a few seconds
// and uses all CPUs. `peer` is the address of a bps-topo probe --listen, with which the NICs are
// measured. If `peer` is empty, the NICs are not measured.
Result<std::vector<ProbeResult>> probeMachine(TopologyBuilder& builder, const Env& env, const std::string& peer);
ProbeResult summarise(std::string what, std::vector<double> rates, std::string note);
std::string probeText(const std::vector<ProbeResult>& results);
std::string probeJson(const std::vector<ProbeResult>& results);

// Measures the CUDA devices that BPS_DEVICE allows. The copies go from host memory to a device,
// from a device to host memory, and from device to device.
void probeDevices(TopologyBuilder& builder, const Env& env, std::vector<ProbeResult>& results);

// Measures one TCP connection from this process to itself over the loopback interface. The rate is
// 0 bytes/s if the measurement fails.
ProbeResult probeLoopback();

}  // namespace bps
