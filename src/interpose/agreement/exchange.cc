#include "src/interpose/agreement/exchange.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "src/base/format.h"
#include "src/base/log.h"
#include "src/interpose/settings.h"
#include "src/nccl/real.h"

namespace bps::interpose {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kMostRoom = 16U << 20;  // large enough to see the rate of a network

double secondsSince(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

Status ended() { return {Code::kInvalidUsage, "the communicator was ended by another thread"}; }

}  // namespace

Result<Exchange> Exchange::open(Shadow& shadow, int device, size_t recordBytes) {
  const size_t least = recordBytes * static_cast<size_t>(shadow.nRanks());
  return Exchange(shadow, BPS_TRY(DeviceMemory::allocate(device, least, std::max(least, kMostRoom))));
}

Status Exchange::checkNccl(ncclResult_t called) const {
  if (called == ncclInProgress) shadow_.sawInProgress();
  if (called == ncclSuccess || called == ncclInProgress) return {};
  return failure(static_cast<Code>(called), "NCCL: {}", BPS_REAL(ncclGetErrorString, called));
}

Status Exchange::wait(bpsComm_t comm) {
  const Clock::time_point start = Clock::now();
  Patience patience;
  while (true) {
    if (shadow_.ending()) return ended();
    ncclResult_t state = ncclSuccess;
    BPS_TRY(checkNccl(BPS_REAL(ncclCommGetAsyncError, shadow_.comm(), &state)));
    BPS_TRY(checkNccl(state));
    bpsResult_t ours = bpsSuccess;
    if (comm != nullptr && bpsCommGetAsyncError(comm, &ours) == bpsSuccess && ours != bpsSuccess)
      return {static_cast<Code>(ours), bpsGetLastError(comm)};
    if (state == ncclSuccess && BPS_TRY(memory_->idle())) return {};
    if (!warned_ && secondsSince(start) > settings().env.timeout.value) {
      warned_ = true;
      logWarn(Subsystem::kInit,
              "first all-reduce of a communicator of {} ranks: still waiting for the others; has every rank the same "
              "LD_PRELOAD, BPS_DISABLE and BPS_DEVICE?",
              shadow_.nRanks());
    }
    patience.pause();
  }
}

Result<std::vector<uint8_t>> Exchange::gather(std::span<const uint8_t> mine) {
  const size_t place = mine.size() * static_cast<size_t>(shadow_.rank());
  std::vector<uint8_t> all(mine.size() * static_cast<size_t>(shadow_.nRanks()));
  if (shadow_.ending()) return ended();
  BPS_TRY(memory_->upload(place, mine));
  auto* base = static_cast<uint8_t*>(memory_->data());
  BPS_TRY(
      checkNccl(BPS_REAL(ncclAllGather, base + place, base, mine.size(), ncclInt8, shadow_.comm(), memory_->stream())));
  BPS_TRY(wait(nullptr));
  BPS_TRY(memory_->download(0, all));
  BPS_TRY(wait(nullptr));
  return all;
}

Result<double> Exchange::timeNccl(size_t bytes) {
  if (shadow_.ending()) return ended();
  const Clock::time_point start = Clock::now();
  BPS_TRY(checkNccl(BPS_REAL(ncclAllReduce, memory_->data(), memory_->data(), bytes / sizeof(float), ncclFloat32,
                             ncclSum, shadow_.comm(), memory_->stream())));
  BPS_TRY(wait(nullptr));
  return secondsSince(start);
}

Result<double> Exchange::timeBps(size_t bytes, const Terms& terms) {
  const Clock::time_point start = Clock::now();
  const Call call{memory_->data(), memory_->data(), bytes / sizeof(float), ncclFloat32,
                  ncclSum,         shadow_.comm(),  memory_->stream(),     {}};
  if (terms.team != nullptr && terms.team->takes(call)) {
    BPS_TRY(checkNccl(terms.team->issue(call)));
    BPS_TRY(wait(terms.served));
    BPS_TRY(checkNccl(terms.team->error()));
    return secondsSince(start);
  }
  const bpsResult_t issued =
      bpsAllReduce(call.send, call.recv, call.count, bpsFloat32, bpsSum, terms.served, call.stream);
  if (issued != bpsSuccess) return Status(static_cast<Code>(issued), bpsGetLastError(terms.served));
  BPS_TRY(wait(terms.served));
  return secondsSince(start);
}

}  // namespace bps::interpose
