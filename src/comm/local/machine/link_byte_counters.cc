#include "src/comm/local/machine/link_byte_counters.h"

namespace bps {
namespace {

// Returns the index of a counter in a row. Each link has one counter per kind for the direction up,
// then one per kind for the direction down.
size_t counterIndex(LinkId link, bool up, size_t kind) { return (size_t{link} * 2 + (up ? 0 : 1)) * kCopyKinds + kind; }

}  // namespace

std::vector<LinkByteCounters::Increment> LinkByteCounters::incrementsOf(const std::vector<Copy>& copies) const {
  Traffic traffic(topology_);
  for (const Copy& copy : copies) traffic.addCopy(topology_, copy);
  std::vector<Increment> increments;
  for (LinkId link = 0; link < topology_.links().size(); ++link)
    for (size_t kind = 0; kind < kCopyKinds; ++kind)
      for (bool up : {true, false}) {
        const uint64_t bytes = (up ? traffic.linkBytes(link).up : traffic.linkBytes(link).down)[kind];
        if (bytes > 0) increments.push_back({counterIndex(link, up, kind), bytes});
      }
  return increments;
}

void LinkByteCounters::clear() const {
  for (size_t i = 0; i < size(topology_); ++i) own_[i].store(0, std::memory_order_relaxed);
}

Traffic LinkByteCounters::total() const {
  Traffic traffic(topology_);
  for (LinkId link = 0; link < topology_.links().size(); ++link)
    for (size_t kind = 0; kind < kCopyKinds; ++kind)
      for (const Counter* row : rows_) {
        LinkBytes& bytes = traffic.linkBytes(link);
        bytes.up[kind] += row[counterIndex(link, true, kind)].load(std::memory_order_relaxed);
        bytes.down[kind] += row[counterIndex(link, false, kind)].load(std::memory_order_relaxed);
      }
  return traffic;
}

}  // namespace bps
