// Registry: the memory registrations of one device. Any thread may call the functions of a
// Registry.
//
// Memory within an existing registration shares that registration. The registry removes a
// registration when its last user releases it. It does not cache registrations, because the memory
// may be unmapped afterwards and its address reused for other pages.
#pragma once
#include <map>
#include <memory>

#include "net_plugin/comm.h"
#include "net_plugin/verbs/ib/library.h"
#include "src/base/mutex.h"

namespace bps::plugin::verbs {

struct Registration {
  ibv_mr* region = nullptr;
  uintptr_t begin = 0, end = 0;
  int access = 0;
  bool onGpu = false;
  size_t users = 0;

  uint32_t localKey() const { return region->lkey; }
  uint32_t remoteKey() const { return region->rkey; }
  bool covers(const void* data, size_t bytes) const {
    const auto first = reinterpret_cast<uintptr_t>(data);
    return first >= begin && first + bytes <= end;
  }
};

class Registry {
 public:
  // `ptrSupport` says which kinds of memory the device supports, as a set of the kPtr bits of
  // abi.h.
  Registry(const Library& library, ibv_pd* domain, std::string device, int ptrSupport)
      : library_(library), domain_(domain), device_(std::move(device)), ptrSupport_(ptrSupport) {}

  Result<Registration*> add(const MemoryRegion& memory, int access);
  // Removes one user of a registration. Does nothing if `registration` is null.
  void release(Registration* registration);

 private:
  Registration* find(const Registration& wanted) BPS_REQUIRES(mutex_);
  Result<ibv_mr*> registerOnGpu(const MemoryRegion& memory, const Registration& wanted);
  Result<ibv_mr*> registerOnHost(const Registration& wanted);

  const Library& library_;
  ibv_pd* domain_;
  std::string device_;
  int ptrSupport_;
  Mutex mutex_;
  std::multimap<uintptr_t, std::unique_ptr<Registration>> registrations_ BPS_GUARDED_BY(mutex_);  // key: begin
};

}  // namespace bps::plugin::verbs
