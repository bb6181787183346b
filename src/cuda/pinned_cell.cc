#include "src/cuda/pinned_cell.h"

#include <map>
#include <vector>

#include "src/base/memory.h"
#include "src/cuda/pinned_memory.h"

namespace bps::cuda {
namespace {

struct Pool {
  std::vector<PinnedMemory> pages;
  std::vector<PinnedCell> free;
};

struct Pools {
  Mutex mutex;
  std::map<int, Pool> byDevice BPS_GUARDED_BY(mutex);
};

Pools& pools() {
  static auto* instance = new Pools;
  return *instance;
}

}  // namespace

Result<PinnedCell> PinnedCell::take(const Device& device) {
  MutexLock lock(pools().mutex);
  Pool& pool = pools().byDevice[device.ordinal()];
  if (pool.free.empty()) {
    pool.pages.push_back(BPS_TRY(PinnedMemory::create(device, kPageBytes)));
    const PinnedMemory& page = pool.pages.back();
    for (size_t at = 0; at < page.size(); at += kBytes) pool.free.push_back({page.data() + at, page.address() + at});
  }
  const PinnedCell cell = pool.free.back();
  pool.free.pop_back();
  return cell;
}

void PinnedCell::recycle(const Device& device, const PinnedCell& cell) {
  MutexLock lock(pools().mutex);
  pools().byDevice[device.ordinal()].free.push_back(cell);
}

}  // namespace bps::cuda
