// The optional symbols: sleeping, and the other direction of a connection.
#include "bps/net_plugin.h"
#include "net_plugin/comm.h"
#include "net_plugin/nccl/border.h"

namespace bps::plugin::nccl {
namespace {

Status isNull() { return {Code::kInvalidArgument, "the connection or the outcome is a null pointer"}; }

int waitFd(void* comm, int* fd) {
  return border([&]() -> Status {
    if (comm == nullptr || fd == nullptr) return isNull();
    *fd = BPS_TRY(static_cast<Comm*>(comm)->waitFd());
    return {};
  });
}

int arm(void* comm, int* ready) {
  return border([&]() -> Status {
    if (comm == nullptr || ready == nullptr) return isNull();
    *ready = 0;
    *ready = BPS_TRY(static_cast<Comm*>(comm)->arm()) ? 1 : 0;
    return {};
  });
}

int reverse(void* comm, void** other) {
  return border([&]() -> Status {
    if (comm == nullptr || other == nullptr) return isNull();
    *other = nullptr;
    *other = BPS_TRY(static_cast<Comm*>(comm)->reverse()).release();
    return {};
  });
}

}  // namespace
}  // namespace bps::plugin::nccl

#define BPS_SYMBOL extern "C" __attribute__((visibility("default"))) const

BPS_SYMBOL bpsNetWait_v1_t bpsNetWait_v1{bps::plugin::nccl::waitFd, bps::plugin::nccl::arm};
BPS_SYMBOL bpsNetReverse_v1_t bpsNetReverse_v1{bps::plugin::nccl::reverse};
