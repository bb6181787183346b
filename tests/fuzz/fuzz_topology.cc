// Files and lines that describe a machine. The input is refused, or the machine can be written, read back unchanged and
// planned.
#include <cstdlib>
#include <string>

#include "topo/plan/planner.h"
#include "topo/synthetic.h"
#include "topo/xml/topology_xml.h"

namespace {

bps::Result<bps::TopologyBuilder> read(std::string_view text) {
  return bps::isSyntheticText(text) ? bps::readSynthetic(text) : bps::readMachineXml(text);
}

// Returns "" if the text is refused.
std::string dumpOf(std::string_view text) {
  auto builder = read(text);
  if (!builder.ok()) return {};
  auto built = std::move(builder).value().build();
  if (!built.ok()) return {};
  const bps::Topology topology = std::move(built).value();
  // Larger machines take long to plan and cover no more code.
  if (topology.all(bps::NodeKind::kGpu).size() <= 6) {
    bps::LocalPlanRequest job;
    job.bytes = text.size();
    auto made = bps::planLocal(topology, job);
    if (!made.ok() || std::move(made).value().best().copiesCrossSwitches) std::abort();
  }
  return bps::writeNcclXml(topology);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string dump = dumpOf({reinterpret_cast<const char*>(data), size});
  if (dump.empty()) return 0;
  // Writing rounds rates once; written text reads back exactly.
  const std::string again = dumpOf(dump);
  if (again.empty() || dumpOf(again) != again) std::abort();
  return 0;
}
