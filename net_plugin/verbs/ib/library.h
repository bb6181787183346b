// Library: the functions of libibverbs. It is loaded at run time, so the plugin also loads on machines without it.
//
// The functions that post and poll are missing here: they are inline in the header and use the device's function table.
#pragma once
#include <infiniband/verbs.h>

#include "src/base/status.h"

namespace bps::plugin::verbs {

struct Library {
  decltype(&::ibv_get_device_list) getDeviceList = nullptr;
  decltype(&::ibv_free_device_list) freeDeviceList = nullptr;
  decltype(&::ibv_get_device_name) getDeviceName = nullptr;
  decltype(&::ibv_open_device) openDevice = nullptr;
  decltype(&::ibv_close_device) closeDevice = nullptr;
  decltype(&::ibv_query_device) queryDevice = nullptr;
  int (*queryPort)(ibv_context*, uint8_t port, ibv_port_attr*) = nullptr;  // fills the original part of the struct
  decltype(&::ibv_alloc_pd) allocPd = nullptr;
  decltype(&::ibv_dealloc_pd) deallocPd = nullptr;
  ibv_mr* (*regMr)(ibv_pd*, void* data, size_t bytes, int access) = nullptr;
  // Null if rdma-core is too old.
  ibv_mr* (*regDmaBufMr)(ibv_pd*, uint64_t offset, size_t bytes, uint64_t address, int fd, int access) = nullptr;
  decltype(&::ibv_dereg_mr) deregMr = nullptr;
  decltype(&::ibv_create_comp_channel) createCompChannel = nullptr;
  decltype(&::ibv_destroy_comp_channel) destroyCompChannel = nullptr;
  decltype(&::ibv_create_cq) createCq = nullptr;
  decltype(&::ibv_destroy_cq) destroyCq = nullptr;
  decltype(&::ibv_get_cq_event) getCqEvent = nullptr;
  decltype(&::ibv_ack_cq_events) ackCqEvents = nullptr;
  decltype(&::ibv_create_qp) createQp = nullptr;
  decltype(&::ibv_modify_qp) modifyQp = nullptr;
  decltype(&::ibv_destroy_qp) destroyQp = nullptr;
  decltype(&::ibv_wc_status_str) wcStatusStr = nullptr;

  // Loads the library at the first call. It is never unloaded, because its drivers stay loaded until the process ends.
  static Result<const Library*> open();
};

}  // namespace bps::plugin::verbs
