#include "tests/gpu_ranks/job.h"

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

namespace bps::test {
namespace {

int numberFrom(const char* variable) {
  const char* text = std::getenv(variable);
  if (text == nullptr) fail(std::string(variable) + " is not set: start this program with bps-run");
  return std::atoi(text);
}

template <class Function>
void resolve(Function& function, const char* name) {
  function = reinterpret_cast<Function>(::dlsym(RTLD_DEFAULT, name));
  if (function == nullptr) fail(std::string("no ") + name);
}

}  // namespace

void Job::check(bpsResult_t result, const char* function) const {
  if (result != bpsSuccess) fail(std::string(function) + ": " + bpsGetLastError(comm_));
}

Job::Job() : rank_(numberFrom("BPS_RANK")), ranks_(numberFrom("BPS_NRANKS")) {
  gpu();
  bpsUniqueId id;
  check(bpsGetUniqueId(&id), "bpsGetUniqueId");
  check(bpsCommInitRank(&comm_, ranks_, id, rank_), "bpsCommInitRank");
  check(bpsHostStreamCreate(&host_), "bpsHostStreamCreate");
}

Job::~Job() {
  (void)bpsHostStreamDestroy(host_);
  if (comm_ != nullptr) (void)bpsCommDestroy(comm_);
}

void Job::end() { check(destroy(), "bpsCommDestroy"); }

bpsResult_t Job::destroy() { return bpsCommDestroy(std::exchange(comm_, nullptr)); }

void Job::abort() { check(bpsCommAbort(std::exchange(comm_, nullptr)), "bpsCommAbort"); }

void Job::allReduce(const Buffer& buffer, size_t bytes, const Stream& stream) const {
  auto* const handle = reinterpret_cast<cudaStream_t>(stream.get());
  check(bpsAllReduce(buffer.data(), buffer.data(), bytes / sizeof(float), bpsFloat32, bpsSum, comm_, handle),
        "bpsAllReduce");
}

void Job::allReduceOnHost(void* data, size_t bytes) const {
  check(bpsAllReduce(data, data, bytes / sizeof(float), bpsFloat32, bpsSum, comm_, host_), "bpsAllReduce");
  check(bpsHostStreamSynchronize(host_), "bpsHostStreamSynchronize");
}

void Job::barrier() const {
  float nothing = 0;
  allReduceOnHost(&nothing, sizeof nothing);
}

void Job::share(void* bytes, size_t size) const {
  if (rank_ != 0) std::memset(bytes, 0, size);
  check(bpsAllReduce(bytes, bytes, size, bpsUint8, bpsSum, comm_, host_), "bpsAllReduce");
  check(bpsHostStreamSynchronize(host_), "bpsHostStreamSynchronize");
}

Nccl::Nccl() {
  // NCCL tells ranks on one GPU apart by NCCL_HOSTID and connects them as if they were on different
  // machines.
  if (const char* host = std::getenv("BPS_HOSTID")) ::setenv("NCCL_HOSTID", host, 0);
  const char* given = std::getenv("BPS_NCCL_LIB_PATH");
  if (::dlopen(given != nullptr ? given : "libnccl.so.2", RTLD_NOW | RTLD_GLOBAL) == nullptr) {
    std::printf("skipped: no NCCL: %s\n", ::dlerror());
    std::exit(77);
  }
  resolve(getVersion, "ncclGetVersion");
  resolve(getUniqueId, "ncclGetUniqueId");
  resolve(commInitRank, "ncclCommInitRank");
  resolve(commDestroy, "ncclCommDestroy");
  resolve(allReduce, "ncclAllReduce");
  resolve(errorString, "ncclGetErrorString");
}

void Nccl::check(ncclResult_t result, const char* function) const {
  if (result != ncclSuccess) fail(std::string(function) + ": " + errorString(result));
}

}  // namespace bps::test
