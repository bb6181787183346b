// The functions of the exported tables that are equal in all versions of the interface, and the
// common code of the functions that differ between versions.
#pragma once
#include "net_plugin/nccl/context.h"

namespace bps::plugin::nccl {

int devices(int* count);
int accept(void* listenComm, void** recvComm, abi::DeviceHandle** device);
int registerMemory(void* comm, void* data, size_t bytes, int type, void** memory);
int registerDmaBuf(void* comm, void* data, size_t bytes, int type, uint64_t offset, int fd, void** memory);
int deregisterMemory(void* comm, void* memory);
int flush(void* comm, int n, void** data, int* sizes, void** memory, void** request);
int test(void* request, int* done, int* sizes);
int closeComm(void* comm);
int closeListener(void* listenComm);

Status listenWith(const Context* context, int device, void* handle, void** listenComm);
Status connectWith(Context* context, int device, void* handle, void** sendComm);
struct PostArgs {
  void* data;
  size_t bytes;
  void* memory;
};
Status post(void* comm, const PostArgs& message, void** request);

}  // namespace bps::plugin::nccl
