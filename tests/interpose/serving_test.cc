// Which all-reduces bps serves, and which go to NCCL.
#include "src/base/format.h"
#include "tests/interpose/harness.h"

using namespace bps::test;

namespace {
constexpr size_t kLarge = 4096, kSmall = 8;  // elements; the test sets BPS_NCCL_MIN_BYTES between them
}

BPS_SCENARIO(LargeCallsAreOursSmallOnesNccls, 3, ) {
  const ncclComm_t comm = self.makeComm();
  for (const size_t count : {kLarge, kSmall, kLarge + 1}) BPS_NCCL(allReduce(self, comm, count));
  const std::string calls = callsOfNccl();
  BPS_CHECK(has(calls, "ncclAllReduce:8 "));
  BPS_CHECK(!has(calls, "ncclAllReduce:4096") && !has(calls, "ncclAllReduce:4097"));
  BPS_NCCL(ncclCommFinalize(comm));
  BPS_NCCL(ncclCommDestroy(comm));
}

BPS_SCENARIO(SwitchedOffAllGoesToNccl, 2, {"BPS_DISABLE", "1"}) {
  const ncclComm_t comm = self.makeComm();
  BPS_NCCL(allReduce(self, comm, kLarge));
  BPS_EQUAL(callsOfNccl(), std::string("ncclCommInitRank ncclAllReduce:4096 "));
  BPS_NCCL(ncclCommDestroy(comm));
}
