// Library: the functions of libibverbs. The plugin loads libibverbs at run time, so the plugin also
// works on machines without libibverbs.
//
// The functions that post requests and poll for completions are missing here. They are inline
// functions of the verbs header, which call the function table of the device.
#pragma once
#include <infiniband/verbs.h>

#include "src/base/status.h"

namespace bps::plugin::verbs {

// A list of the functions whose types equal those in the verbs header, as FUNCTION(member, exported
// name).
// clang-format off
#define BPS_VERBS_FUNCTIONS(FUNCTION)                                                                                  \
  FUNCTION(getDeviceList, ibv_get_device_list)                                                                         \
  FUNCTION(freeDeviceList, ibv_free_device_list)                                                                       \
  FUNCTION(getDeviceName, ibv_get_device_name)                                                                         \
  FUNCTION(openDevice, ibv_open_device)                                                                                \
  FUNCTION(closeDevice, ibv_close_device)                                                                              \
  FUNCTION(queryDevice, ibv_query_device)                                                                              \
  FUNCTION(allocPd, ibv_alloc_pd)                                                                                      \
  FUNCTION(deallocPd, ibv_dealloc_pd)                                                                                  \
  FUNCTION(deregMr, ibv_dereg_mr)                                                                                      \
  FUNCTION(createCompChannel, ibv_create_comp_channel)                                                                 \
  FUNCTION(destroyCompChannel, ibv_destroy_comp_channel)                                                               \
  FUNCTION(createCq, ibv_create_cq)                                                                                    \
  FUNCTION(destroyCq, ibv_destroy_cq)                                                                                  \
  FUNCTION(getCqEvent, ibv_get_cq_event)                                                                               \
  FUNCTION(ackCqEvents, ibv_ack_cq_events)                                                                             \
  FUNCTION(createQp, ibv_create_qp)                                                                                    \
  FUNCTION(modifyQp, ibv_modify_qp)                                                                                    \
  FUNCTION(destroyQp, ibv_destroy_qp)                                                                                  \
  FUNCTION(wcStatusStr, ibv_wc_status_str)
// clang-format on

struct Library {
// NOLINTNEXTLINE(bugprone-macro-parentheses): a declaration's parts cannot stand in parentheses
#define BPS_MEMBER(member, name) decltype(&::name) member = nullptr;
  BPS_VERBS_FUNCTIONS(BPS_MEMBER)
#undef BPS_MEMBER
  int (*queryPort)(ibv_context*, uint8_t port, ibv_port_attr*) = nullptr;  // fills only the struct's original fields
  ibv_mr* (*regMr)(ibv_pd*, void* data, size_t bytes, int access) = nullptr;
  // Null if rdma-core is too old to support dma-bufs.
  ibv_mr* (*regDmaBufMr)(ibv_pd*, uint64_t offset, size_t bytes, uint64_t address, int fd, int access) = nullptr;

  // Loads libibverbs at the first call. It is never unloaded, because its drivers stay loaded until
  // the process ends.
  static Result<const Library*> open();
};

}  // namespace bps::plugin::verbs
