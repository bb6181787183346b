// The optional symbols of include/bps/net_plugin.h: bpsNetWait_v1, bpsNetMemory_v1 and bpsNetReverse_v1.
#include "bps/net_plugin.h"
#include "net_plugin/comm.h"
#include "net_plugin/nccl/api_guard.h"
#include "net_plugin/nccl/context.h"

namespace bps::plugin::nccl {
namespace {

Status isNull() { return {Code::kInvalidArgument, "the connection or the result is a null pointer"}; }

int waitFd(void* comm, int* fd) {
  return apiGuard([&]() -> Status {
    if (comm == nullptr || fd == nullptr) return isNull();
    *fd = BPS_TRY(static_cast<Comm*>(comm)->waitFd());
    return {};
  });
}

int arm(void* comm, int* ready) {
  return apiGuard([&]() -> Status {
    if (comm == nullptr || ready == nullptr) return isNull();
    *ready = 0;
    *ready = BPS_TRY(static_cast<Comm*>(comm)->arm()) ? 1 : 0;
    return {};
  });
}

int reverse(void* comm, void** other) {
  return apiGuard([&]() -> Status {
    if (comm == nullptr || other == nullptr) return isNull();
    *other = nullptr;
    *other = BPS_TRY(static_cast<Comm*>(comm)->reverse()).release();
    return {};
  });
}

int asksEach(void* context) {
  return apiGuard([&]() -> Status {
    BPS_TRY(context != nullptr ? findContext(context) : sharedContext())->asksEach();
    return {};
  });
}

int supported(void* comm, int* ptrSupport) {
  return apiGuard([&]() -> Status {
    if (comm == nullptr || ptrSupport == nullptr) return isNull();
    *ptrSupport = static_cast<Comm*>(comm)->ptrSupport();
    return {};
  });
}

}  // namespace
}  // namespace bps::plugin::nccl

#define BPS_SYMBOL extern "C" __attribute__((visibility("default"))) const

BPS_SYMBOL bpsNetWait_v1_t bpsNetWait_v1{bps::plugin::nccl::waitFd, bps::plugin::nccl::arm};
BPS_SYMBOL bpsNetMemory_v1_t bpsNetMemory_v1{bps::plugin::nccl::asksEach, bps::plugin::nccl::supported};
BPS_SYMBOL bpsNetReverse_v1_t bpsNetReverse_v1{bps::plugin::nccl::reverse};
