// Files and lines that describe a machine: refused, or a machine that can be written, read back the same, and planned.
#include <cstdlib>
#include <string>

#include "topo/plan/planner.h"
#include "topo/synthetic.h"
#include "topo/xml/topology_xml.h"

namespace {

bps::Result<bps::TopologyBuilder> read(std::string_view text) {
  return bps::isSyntheticText(text) ? bps::readSynthetic(text) : bps::readMachineXml(text);
}

// "" when it is refused.
std::string dumpOf(std::string_view text) {
  auto builder = read(text);
  if (!builder.ok()) return {};
  auto built = std::move(builder).value().build();
  if (!built.ok()) return {};
  const bps::Topology topology = std::move(built).value();
  // Plans of large machines take long and find nothing else.
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
  // Rates are rounded once when they are written; what has been written is read back to the letter.
  const std::string again = dumpOf(dump);
  if (again.empty() || dumpOf(again) != again) std::abort();
  return 0;
}
