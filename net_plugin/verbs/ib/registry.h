// Registry: the registrations of one device. Memory inside a registration that is in use gets the same one again; a
// registration ends with its last user, because memory that is unmapped afterwards may come back as other pages.
//
// All functions may be called from any thread.
#pragma once
#include <map>
#include <memory>

#include "net_plugin/verbs/ib/library.h"
#include "src/base/mutex.h"

namespace bps::plugin::verbs {

struct Registration {
  ibv_mr* region = nullptr;
  uintptr_t begin = 0, end = 0;
  int access = 0;
  size_t users = 0;

  uint32_t localKey() const { return region->lkey; }
  uint32_t remoteKey() const { return region->rkey; }
};

class Registry {
 public:
  Registry(const Library& library, ibv_pd* domain, std::string device)
      : library_(library), domain_(domain), device_(std::move(device)) {}

  Result<Registration*> add(void* data, size_t bytes, int access);
  // Null is nothing to release.
  void release(Registration* registration);

 private:
  Registration* find(uintptr_t begin, uintptr_t end, int access) BPS_REQUIRES(mutex_);

  const Library& library_;
  ibv_pd* domain_;
  std::string device_;
  Mutex mutex_;
  std::multimap<uintptr_t, std::unique_ptr<Registration>> registrations_ BPS_GUARDED_BY(mutex_);  // by their begin
};

}  // namespace bps::plugin::verbs
