#include "tools/bps_topo/machine_report.h"

#include <cerrno>
#include <fstream>

#include "src/base/format.h"
#include "topo/load_topology.h"

namespace bps {

Result<MachineReport> makeMachineReport(const MachineReportRequest& request, Env env) {
  if (!request.topology.empty()) env.topoFile = request.topology;
  MachineReport report;
  report.source = env.topologySource().empty() ? "this machine" : env.topologySource();
  report.topology = BPS_TRY(loadAndDumpTopology(env));
  report.job.gpus = request.gpus;
  report.job.bytes = request.bytes;
  report.job.roots = request.roots;
  report.job.network = request.network;
  report.job.strategy = BPS_TRY(parseStrategy(env.strategy));
  report.decision = BPS_TRY(planLocal(report.topology, report.job));
  report.mixture = bestMixture(report.topology, report.decision.candidates[0].plan, report.job.bytes, report.job.unit);
  return report;
}

Status writeText(const std::string& path, const std::string& text) {
  errno = 0;
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text << std::flush;
  if (!file.good()) return systemFailure(path + " cannot be written", errno);
  return {};
}

}  // namespace bps
