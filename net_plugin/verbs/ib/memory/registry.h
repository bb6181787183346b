// Registry: the memory registrations of one device. Any thread may call all functions.
//
// Memory within an existing registration shares it. A registration is removed with its last user and not cached,
// because the memory may be unmapped afterwards and the address reused for other pages.
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
  // `ptrSupport` is the kinds of memory that the device supports (NCCL's bits).
  Registry(const Library& library, ibv_pd* domain, std::string device, int ptrSupport)
      : library_(library), domain_(domain), device_(std::move(device)), ptrSupport_(ptrSupport) {}

  Result<Registration*> add(const MemoryRegion& memory, int access);
  // Does nothing if the registration is null.
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
