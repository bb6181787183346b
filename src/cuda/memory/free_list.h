// FreeList: the unused memory regions of each device, kept for later requests.
//
// Regions never go back to the driver. The driver may wait for all work on the device before it
// frees memory, and a stream of another communicator may wait forever. Any thread may call these
// functions.
#pragma once
#include <cstddef>
#include <map>
#include <optional>
#include <vector>

#include "src/base/mutex.h"

namespace bps::cuda {

// Region is a type that has a member `bytes`.
template <class Region>
class FreeList {
 public:
  // Takes the smallest region of at least `bytes` and at most 2 * `bytes` bytes, if there is one.
  std::optional<Region> take(int device, size_t bytes) {
    const MutexLock lock(mutex_);
    std::vector<Region>& regions = byDevice_[device];
    auto best = regions.end();
    for (auto region = regions.begin(); region != regions.end(); ++region)
      if (region->bytes >= bytes && region->bytes / 2 <= bytes &&
          (best == regions.end() || region->bytes < best->bytes))
        best = region;
    if (best == regions.end()) return std::nullopt;
    const Region taken = *best;
    regions.erase(best);
    return taken;
  }
  void put(int device, const Region& region) {
    const MutexLock lock(mutex_);
    byDevice_[device].push_back(region);
  }

 private:
  Mutex mutex_;
  std::map<int, std::vector<Region>> byDevice_ BPS_GUARDED_BY(mutex_);
};

}  // namespace bps::cuda
