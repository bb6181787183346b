// Tests calls between ncclGroupStart and ncclGroupEnd.
#include <thread>

#include "src/base/format.h"
#include "tests/interpose/harness.h"

using namespace bps::test;

namespace {

// A call that is queued in a group, and its expected result.
struct Queued {
  Queued(const Rank& self, ncclComm_t comm, size_t count, cudaStream_t on_ = stream())
      : mine(count), sum(count), on(on_) {
    contribute(mine, self.rank);
    BPS_NCCL(ncclAllReduce(mine.data(), sum.data(), count, ncclFloat32, ncclSum, comm, on));
  }
  bool untouched() const { return sum.all(0); }
  bool isSum(const Rank& self) const {
    synchronize(on);
    return sum.isSum(self.nRanks);
  }
  Buffer mine, sum;
  cudaStream_t on;
};

}  // namespace

BPS_SCENARIO(ACommunicatorsFirstCallsMayBeAGroup, 2, ) {
  const ncclComm_t comm = self.makeComm();
  BPS_NCCL(ncclGroupStart());
  const Queued first(self, comm, kLarge), small(self, comm, kSmall), last(self, comm, kLarge + 1);
  BPS_NCCL(ncclGroupEnd());
  for (const Queued* one : {&first, &small, &last}) BPS_CHECK(one->isSum(self));
  const std::string calls = takeNcclCalls();
  BPS_CHECK(contains(calls, "ncclGroupStart ncclAllReduce:8 ncclGroupEnd "));
  BPS_CHECK(!contains(calls, "ncclAllReduce:4096 "));
}

BPS_SCENARIO(SmallCallsStayInNcclsGroup, 2, ) {
  const ncclComm_t comm = self.makeComm();
  negotiate(self, comm);
  BPS_NCCL(ncclGroupStart());
  const Queued large(self, comm, kLarge), small(self, comm, kSmall);
  BPS_CHECK(large.untouched() && small.untouched());
  BPS_NCCL(ncclGroupEnd());
  BPS_CHECK(large.isSum(self) && small.isSum(self));
  BPS_EQUAL(takeNcclCalls(), std::string("ncclGroupStart ncclAllReduce:8 ncclGroupEnd "));
}

BPS_SCENARIO(NothingStartsBeforeTheOutermostEnd, 2, ) {
  const ncclComm_t comm = self.makeComm();
  negotiate(self, comm);
  BPS_NCCL(ncclGroupStart());
  BPS_NCCL(ncclGroupStart());
  const Queued one(self, comm, kLarge);
  BPS_NCCL(ncclGroupEnd());
  BPS_CHECK(one.untouched());
  BPS_NCCL(ncclGroupEnd());
  BPS_CHECK(one.isSum(self));
  BPS_CHECK(ncclGroupEnd() == ncclInvalidUsage);  // NCCL itself reports this error
}

BPS_SCENARIO(AGroupMayHaveSendsThatOtherRanksLack, 2, ) {
  const ncclComm_t comm = self.makeComm();
  negotiate(self, comm);
  const Buffer token(1, self.rank == 0 ? 42 : 0);
  if (self.rank == 0) {
    BPS_NCCL(ncclGroupStart());
    const Queued one(self, comm, kLarge);
    BPS_NCCL(ncclSend(token.data(), 1, ncclFloat32, 1, comm, stream()));
    BPS_NCCL(ncclGroupEnd());
    BPS_CHECK(one.isSum(self));
  } else {
    BPS_NCCL(allReduce(self, comm, kLarge));
    BPS_NCCL(ncclRecv(token.data(), 1, ncclFloat32, 0, comm, stream()));
    synchronize();
    BPS_CHECK(token.all(42));
  }
  BPS_CHECK(!contains(takeNcclCalls(), "ncclAllReduce"));
}

BPS_SCENARIO(ASimulatedGroupDropsItsCalls, 2, ) {
  const ncclComm_t comm = self.makeComm();
  negotiate(self, comm);
  BPS_NCCL(ncclGroupStart());
  const Queued dropped(self, comm, kLarge);
  BPS_NCCL(ncclGroupSimulateEnd(nullptr));
  BPS_CHECK(dropped.untouched());
  BPS_NCCL(ncclGroupStart());  // if the dropped call were still queued, it would run with this group
  const Queued next(self, comm, kLarge + 1);
  BPS_NCCL(ncclGroupEnd());
  BPS_CHECK(next.isSum(self));
  BPS_CHECK(dropped.untouched());
}

namespace {
// Rank 0 calls on both communicators in one group. Rank 1 calls first on `one` and then on `other`.
void negotiateTwo(const Rank& self, ncclComm_t one, ncclComm_t other) {
  // Calls on one stream must have the same order on all ranks, so the second communicator uses
  // another stream.
  const cudaStream_t aside = newStream();
  if (self.rank == 1 && !onDevice()) {  // without CUDA, a call has ended when it returns
    std::thread second([&] { BPS_NCCL(allReduce(self, other, kLarge)); });
    BPS_NCCL(allReduce(self, one, kLarge));
    second.join();
    return;
  }
  if (self.rank == 0) BPS_NCCL(ncclGroupStart());
  const Queued first(self, one, kLarge), second(self, other, kLarge, aside);
  if (self.rank == 0) BPS_NCCL(ncclGroupEnd());
  BPS_CHECK(first.isSum(self) && second.isSum(self));
}
}  // namespace

BPS_SCENARIO(CommunicatorsOfOneGroupNegotiateIndependently, 2, ) {
  for (const bool sameOrder : {true, false}) {
    const ncclComm_t one = self.makeComm(sameOrder ? 0 : 2), other = self.makeComm(sameOrder ? 1 : 3);
    if (self.rank == 0 || sameOrder) negotiateTwo(self, one, other);
    else negotiateTwo(self, other, one);
  }
  BPS_CHECK(!contains(takeNcclCalls(), "ncclAllReduce:4096"));
}

namespace {
// Queues a call with a user-defined operation that is freed before the group ends. Each element of
// the result is 2 * 1 + 2 * 2 = 6.
void callWithFreedOperation(const Rank& self, ncclComm_t comm, size_t count) {
  float factor = static_cast<float>(self.rank + 1);
  ncclRedOp_t op = ncclSum;
  BPS_NCCL(ncclRedOpCreatePreMulSum(&op, &factor, ncclFloat32, ncclScalarHostImmediate, comm));
  const Buffer data(count, 2);
  BPS_NCCL(ncclGroupStart());
  BPS_NCCL(ncclAllReduce(data.data(), data.data(), count, ncclFloat32, op, comm, stream()));
  BPS_NCCL(ncclRedOpDestroy(op, comm));
  BPS_NCCL(ncclGroupEnd());
  synchronize();
  BPS_CHECK(data.all(6));
}
}  // namespace

BPS_SCENARIO(AnOperationMayBeFreedBeforeItsGroupEnds, 2, ) {
  const ncclComm_t comm = self.makeComm();
  callWithFreedOperation(self, comm, kSmall);  // the communicator's first call, which NCCL serves
  callWithFreedOperation(self, comm, kLarge);
  callWithFreedOperation(self, comm, kSmall);
  const std::string calls = takeNcclCalls();
  BPS_CHECK(contains(calls, "ncclAllReduce:8 ") && !contains(calls, "ncclAllReduce:4096 "));
  BPS_CHECK(contains(calls, "ncclAllGather:384 ncclAllReduce:8 ncclRedOpDestroy "));
}
