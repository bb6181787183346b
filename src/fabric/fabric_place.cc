#include "src/fabric/fabric_place.h"

namespace bps {

Result<FabricPlace> findPlace(const FabricSpec& spec, const std::vector<Interface>& interfaces, const std::string&) {
  FabricPlace place;
  place.shape = spec.shape;
  place.address = BPS_TRY(spec.shape.parseAddress(spec.address));
  for (size_t level = 0; level < spec.shape.k(); ++level) {
    FabricPlace::Level& l = place.levels.emplace_back();
    l.interface = interfaces.front().name;
    l.machines.assign(spec.shape.n(), interfaces.front().address);
  }
  return place;
}

}  // namespace bps
