// The metrics of the process that every Prometheus client exports: CPU time, memory, descriptors and start time.
#pragma once
#include "src/metrics/metrics_text.h"

namespace bps {

// Adds the families. Leaves out those that the system does not tell.
void addProcessMetrics(MetricsText& text);
// Adds bps_build_info: the version of bps and the CPU kernels that sum.
void addBuildInfo(std::string_view kernels, MetricsText& text);

}  // namespace bps
