#include "src/plan/send_order.h"

#include <algorithm>
#include <numeric>

namespace bps {
namespace {

__extension__ using UInt128 = unsigned __int128;

// Returns the start of an owner's arc (send_order.h). The length of the circle is the sum of all
// weights.
uint64_t arcBegin(const std::vector<uint64_t>& weights, size_t owner) {
  return std::accumulate(weights.begin(), weights.begin() + static_cast<ptrdiff_t>(owner), uint64_t{0});
}

}  // namespace

std::vector<size_t> sendOrder(const std::vector<uint64_t>& weights, const std::vector<bool>& owners, size_t machine,
                              size_t machines) {
  const UInt128 beginPoint = UInt128{arcBegin(weights, weights.size())} * machine;  // times `machines`
  std::vector<size_t> order;
  size_t first = 0;  // index in `order` of the owner whose arc contains beginPoint
  for (size_t owner = 0; owner < owners.size(); ++owner) {
    if (!owners[owner]) continue;
    if (UInt128{arcBegin(weights, owner)} * machines <= beginPoint) first = order.size();
    order.push_back(owner);
  }
  std::rotate(order.begin(), order.begin() + static_cast<ptrdiff_t>(first), order.end());
  return order;
}

std::vector<size_t> answerOrder(const std::vector<uint64_t>& weights, size_t owner, size_t machines) {
  const UInt128 end = UInt128{arcBegin(weights, owner + 1)} * machines;
  const uint64_t total = arcBegin(weights, weights.size());
  const auto first =
      static_cast<size_t>((end + total - 1) / total) + machines - 1;  // last machine before the arc's end
  std::vector<size_t> order;
  for (size_t i = 0; i < machines; ++i) order.push_back((first - i) % machines);
  return order;
}

}  // namespace bps
