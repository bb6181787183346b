// The optional symbol by which a caller sleeps until there is something to do.
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

}  // namespace
}  // namespace bps::plugin::nccl

extern "C" __attribute__((visibility("default")))
const bpsNetWait_v1_t bpsNetWait_v1{bps::plugin::nccl::waitFd, bps::plugin::nccl::arm};
