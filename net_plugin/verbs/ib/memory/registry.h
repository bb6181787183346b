// Registry: the registrations of one device. Memory inside a registration that is in use gets the same one again; a
// registration ends with its last user, because memory that is unmapped afterwards may come back as other pages.
//
// All functions may be called from any thread.
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
  // `ptrSupport`: NCCL's bits for the kinds of memory that the device takes.
  Registry(const Library& library, ibv_pd* domain, std::string device, int ptrSupport)
      : library_(library), domain_(domain), device_(std::move(device)), ptrSupport_(ptrSupport) {}

  Result<Registration*> add(const MemoryRegion& memory, int access);
  // Null is nothing to release.
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
  std::multimap<uintptr_t, std::unique_ptr<Registration>> registrations_ BPS_GUARDED_BY(mutex_);  // by their begin
};

}  // namespace bps::plugin::verbs
