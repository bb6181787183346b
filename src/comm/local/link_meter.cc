#include "src/comm/local/link_meter.h"

namespace bps {
namespace {

// A link's numbers: each kind upwards, then each kind downwards.
size_t counterOf(LinkId link, bool up, size_t kind) { return (size_t{link} * 2 + (up ? 0 : 1)) * kCopyKinds + kind; }

}  // namespace

std::vector<LinkMeter::Charge> LinkMeter::chargesOf(const std::vector<Copy>& copies) const {
  Traffic traffic(topology_);
  for (const Copy& copy : copies) traffic.charge(topology_, copy);
  std::vector<Charge> charges;
  for (LinkId link = 0; link < topology_.links().size(); ++link)
    for (size_t kind = 0; kind < kCopyKinds; ++kind)
      for (bool up : {true, false}) {
        const uint64_t bytes = (up ? traffic.on(link).up : traffic.on(link).down)[kind];
        if (bytes > 0) charges.push_back({counterOf(link, up, kind), bytes});
      }
  return charges;
}

void LinkMeter::clear() const {
  for (size_t i = 0; i < size(topology_); ++i) own_[i].store(0, std::memory_order_relaxed);
}

Traffic LinkMeter::total() const {
  Traffic traffic(topology_);
  for (LinkId link = 0; link < topology_.links().size(); ++link)
    for (size_t kind = 0; kind < kCopyKinds; ++kind)
      for (const Number* row : rows_) {
        LinkBytes& bytes = traffic.on(link);
        bytes.up[kind] += row[counterOf(link, true, kind)].load(std::memory_order_relaxed);
        bytes.down[kind] += row[counterOf(link, false, kind)].load(std::memory_order_relaxed);
      }
  return traffic;
}

}  // namespace bps
