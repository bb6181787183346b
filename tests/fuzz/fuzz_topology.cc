// Fuzzes the readers of machine descriptions, which are files or single lines. A reader must refuse the input, or the
// described machine can be planned, written, and read back unchanged.
#include <cstdlib>
#include <string>

#include "topo/plan/planner.h"
#include "topo/synthetic.h"
#include "topo/xml/topology_xml.h"

namespace {

bps::Result<bps::TopologyBuilder> read(std::string_view text) {
  return bps::isSyntheticText(text) ? bps::readSynthetic(text) : bps::readMachineXml(text);
}

// Reads the description, and returns it as written by bps. Returns "" if the reader refuses the text.
std::string dumpOf(std::string_view text) {
  auto builder = read(text);
  if (!builder.ok()) return {};
  auto built = std::move(builder).value().build();
  if (!built.ok()) return {};
  const bps::Topology topology = std::move(built).value();
  // Machines with more than 6 GPUs take long to plan and cover no more code.
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
  // Rounding may change rates up to the second dump. The third dump must equal the second one.
  const std::string again = dumpOf(dump);
  if (again.empty() || dumpOf(again) != again) std::abort();
  return 0;
}
