// Tests calls on CUDA streams. The tests run only with the fake CUDA driver.
#include <dlfcn.h>

#include <fstream>
#include <map>
#include <sstream>
#include <string>

#include "src/base/format.h"
#include "tests/interpose/harness.h"

using namespace bps::test;

BPS_SCENARIO(CallsOnCapturedStreamsGoToNccl, 2, ) {
  if (!onDevice()) return;
  const ncclComm_t comm = self.makeComm();
  negotiate(self, comm);
  const Buffer data(kLarge, 1);
  const auto begin = reinterpret_cast<int (*)(void*, int)>(::dlsym(RTLD_DEFAULT, "cuStreamBeginCapture_v2"));
  const auto end = reinterpret_cast<int (*)(void*, void**)>(::dlsym(RTLD_DEFAULT, "cuStreamEndCapture"));
  void* graph = nullptr;
  BPS_EQUAL(begin(stream(), 2), 0);
  fakeNcclFail("ncclAllReduce", ncclInvalidUsage);  // the fake NCCL cannot record a graph, so the call must fail
  BPS_CHECK(ncclAllReduce(data.data(), data.data(), kLarge, ncclFloat32, ncclSum, comm, stream()) == ncclInvalidUsage);
  BPS_EQUAL(end(stream(), &graph), 0);
  BPS_EQUAL(takeNcclCalls(), std::string("ncclAllReduce:4096 "));
  BPS_NCCL(allReduce(self, comm, kLarge));
  BPS_CHECK(!contains(takeNcclCalls(), "ncclAllReduce"));
}

BPS_SCENARIO(CallsKeepTheOrderOfTheirStream, 3, ) {
  if (!onDevice()) return;
  const ncclComm_t comm = self.makeComm();
  negotiate(self, comm);
  // The program makes three calls on the same bytes without a wait. NCCL serves the second call,
  // and bps serves the others.
  const Buffer data(kLarge, 1);
  BPS_NCCL(ncclAllReduce(data.data(), data.data(), kLarge, ncclFloat32, ncclSum, comm, stream()));
  BPS_NCCL(ncclAllReduce(data.data(), data.data(), kSmall, ncclFloat32, ncclSum, comm, stream()));
  BPS_NCCL(ncclAllReduce(data.data(), data.data(), kLarge, ncclFloat32, ncclSum, comm, stream()));
  synchronize();
  for (size_t i = 0; i < kLarge; ++i) BPS_EQUAL(data.begin()[i], i < kSmall ? 27.F : 9.F);
  BPS_NCCL(ncclCommDestroy(comm));
}

namespace {

// Returns the kernel's flags of the mapping that contains the address.
std::string flagsOfMapping(uintptr_t address) {
  std::ifstream file("/proc/self/smaps");
  bool inside = false;
  for (std::string line; std::getline(file, line);) {
    uintptr_t begin = 0, end = 0;
    char dash = 0;
    std::istringstream range(line);
    if (range >> std::hex >> begin >> dash >> end && dash == '-') inside = begin <= address && address < end;
    if (inside && line.starts_with("VmFlags:")) return line;
  }
  return "";
}

}  // namespace

// After a fork() a write of the parent would move a page that the device keeps using. A child must not inherit it.
BPS_SCENARIO(ForkedChildrenDoNotInheritPinnedMemory, 2, ) {
  if (!onDevice()) return;
  const ncclComm_t comm = self.makeComm();
  negotiate(self, comm);
  const auto pinned = reinterpret_cast<size_t (*)(uintptr_t*, size_t)>(::dlsym(RTLD_DEFAULT, "fakeCudaRegistered"));
  std::vector<uintptr_t> regions(64);
  regions.resize(pinned(regions.data(), regions.size()));
  BPS_CHECK(regions.size() >= 2);  // words and staging memory
  for (const uintptr_t region : regions) BPS_CHECK(contains(flagsOfMapping(region) + " ", " dc "));
  BPS_NCCL(ncclCommDestroy(comm));
}
