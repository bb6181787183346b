#include "src/interpose/negotiation/nccl_exchange.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "src/base/format.h"
#include "src/base/log.h"
#include "src/interpose/preload_config.h"
#include "src/nccl/real_nccl.h"

namespace bps::interpose {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kMaxProbeBytes = 16U << 20;  // large enough to measure the rate of a network

double secondsSince(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

Status ended() { return {Code::kInvalidUsage, "the communicator was ended by another thread"}; }

}  // namespace

Result<NcclExchange> NcclExchange::open(Shadow& shadow, int device, size_t recordBytes) {
  const size_t least = recordBytes * static_cast<size_t>(shadow.nRanks());
  return NcclExchange(shadow, BPS_TRY(ScratchMemory::allocate(device, least, std::max(least, kMaxProbeBytes))));
}

Status NcclExchange::checkNccl(ncclResult_t called) const {
  if (called == ncclInProgress) shadow_.markNonBlocking();
  if (called == ncclSuccess || called == ncclInProgress) return {};
  return failure(static_cast<Code>(called), "NCCL: {}", BPS_REAL(ncclGetErrorString, called));
}

Status NcclExchange::wait(bpsComm_t comm) {
  const Clock::time_point start = Clock::now();
  Backoff backoff;
  while (true) {
    if (shadow_.ending()) return ended();
    ncclResult_t state = ncclSuccess;
    BPS_TRY(checkNccl(BPS_REAL(ncclCommGetAsyncError, shadow_.comm(), &state)));
    BPS_TRY(checkNccl(state));
    bpsResult_t ours = bpsSuccess;
    if (comm != nullptr && bpsCommGetAsyncError(comm, &ours) == bpsSuccess && ours != bpsSuccess)
      return {static_cast<Code>(ours), bpsGetLastError(comm)};
    if (state == ncclSuccess && BPS_TRY(memory_->idle())) return {};
    if (!warned_ && secondsSince(start) > preloadConfig().env.timeout.value) {
      warned_ = true;
      logWarn(Subsystem::kInit,
              "first all-reduce of a communicator of {} ranks: still waiting for the others; has every rank the same "
              "LD_PRELOAD, BPS_DISABLE and BPS_DEVICE?",
              shadow_.nRanks());
    }
    backoff.pause();
  }
}

Result<std::vector<Blob>> NcclExchange::gather(const Blob& mine) {
  const size_t ownOffset = mine.size() * static_cast<size_t>(shadow_.rank());
  Blob all(mine.size() * static_cast<size_t>(shadow_.nRanks()));
  if (shadow_.ending()) return ended();
  BPS_TRY(memory_->upload(ownOffset, mine));
  auto* base = static_cast<uint8_t*>(memory_->data());
  BPS_TRY(checkNccl(
      BPS_REAL(ncclAllGather, base + ownOffset, base, mine.size(), ncclInt8, shadow_.comm(), memory_->stream())));
  BPS_TRY(wait(nullptr));
  BPS_TRY(memory_->download(0, all));
  BPS_TRY(wait(nullptr));
  std::vector<Blob> records;
  for (auto record = all.begin(); record != all.end(); record += static_cast<std::ptrdiff_t>(mine.size()))
    records.emplace_back(record, record + static_cast<std::ptrdiff_t>(mine.size()));
  return records;
}

Result<double> NcclExchange::timeNccl(size_t bytes) {
  if (shadow_.ending()) return ended();
  const Clock::time_point start = Clock::now();
  BPS_TRY(checkNccl(BPS_REAL(ncclAllReduce, memory_->data(), memory_->data(), bytes / sizeof(float), ncclFloat32,
                             ncclSum, shadow_.comm(), memory_->stream())));
  BPS_TRY(wait(nullptr));
  return secondsSince(start);
}

Result<double> NcclExchange::timeBps(size_t bytes, const NegotiatedTerms& terms) {
  const Clock::time_point start = Clock::now();
  const Call call{memory_->data(), memory_->data(), bytes / sizeof(float), ncclFloat32,
                  ncclSum,         shadow_.comm(),  memory_->stream(),     {}};
  if (terms.gpuGroup != nullptr && terms.gpuGroup->supports(call)) {
    BPS_TRY(checkNccl(terms.gpuGroup->issue(call)));
    BPS_TRY(wait(terms.servedComm));
    BPS_TRY(checkNccl(terms.gpuGroup->error()));
    return secondsSince(start);
  }
  const bpsResult_t issued =
      bpsAllReduce(call.send, call.recv, call.count, bpsFloat32, bpsSum, terms.servedComm, call.stream);
  if (issued != bpsSuccess) return Status(static_cast<Code>(issued), bpsGetLastError(terms.servedComm));
  BPS_TRY(wait(terms.servedComm));
  return secondsSince(start);
}

}  // namespace bps::interpose
