// NCCL's public functions, one entry for each. Three things are generated from this table: the
// pointers into the real library (real_nccl.h), the functions that only forward
// (src/interpose/nccl/forward.cc), and the comparison with the installed nccl.h.
//
//   HOOK: the preload library defines the function, and src/interpose/hooks.cc has its body.
//   PASS: the preload library leaves the function to NCCL, and the stand-in forwards it to NCCL.
//
// The stand-in is bps under the name libnccl.so.2. If a function is missing in this table, the
// preload library does not see it, and the stand-in lacks it.
#pragma once

// clang-format off
#define BPS_NCCL_FUNCTIONS(HOOK, PASS)                                                                                 \
  HOOK(ncclResult_t, ncclAllReduce,                                                                                    \
       (const void* send, void* recv, size_t count, ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,              \
        cudaStream_t stream),                                                                                          \
       (send, recv, count, type, op, comm, stream))                                                                    \
  HOOK(ncclResult_t, ncclGroupStart, (), ())                                                                           \
  HOOK(ncclResult_t, ncclGroupEnd, (), ())                                                                             \
  HOOK(ncclResult_t, ncclGroupSimulateEnd, (ncclSimInfo_t* info), (info))                                              \
  HOOK(ncclResult_t, ncclRedOpCreatePreMulSum,                                                                         \
       (ncclRedOp_t* op, void* scalar, ncclDataType_t type, ncclScalarResidence_t residence, ncclComm_t comm),         \
       (op, scalar, type, residence, comm))                                                                            \
  HOOK(ncclResult_t, ncclRedOpDestroy, (ncclRedOp_t op, ncclComm_t comm), (op, comm))                                  \
  HOOK(ncclResult_t, ncclCommFinalize, (ncclComm_t comm), (comm))                                                      \
  HOOK(ncclResult_t, ncclCommDestroy, (ncclComm_t comm), (comm))                                                       \
  HOOK(ncclResult_t, ncclCommAbort, (ncclComm_t comm), (comm))                                                         \
  HOOK(ncclResult_t, ncclCommRevoke, (ncclComm_t comm, int flags), (comm, flags))                                      \
  HOOK(ncclResult_t, ncclCommShrink,                                                                                   \
       (ncclComm_t comm, int* exclude, int count, ncclComm_t* made, ncclConfig_t* config, int flags),                  \
       (comm, exclude, count, made, config, flags))                                                                    \
  HOOK(ncclResult_t, ncclCommGetAsyncError, (ncclComm_t comm, ncclResult_t* result), (comm, result))                   \
  HOOK(const char*, ncclGetLastError, (ncclComm_t comm), (comm))                                                       \
  PASS(ncclResult_t, ncclMemAlloc, (void** pointer, size_t size), (pointer, size))                                     \
  PASS(ncclResult_t, ncclMemFree, (void* pointer), (pointer))                                                          \
  PASS(ncclResult_t, ncclGetVersion, (int* version), (version))                                                        \
  PASS(ncclResult_t, ncclGetUniqueId, (ncclUniqueId* id), (id))                                                        \
  PASS(const char*, ncclGetErrorString, (ncclResult_t result), (result))                                               \
  PASS(void, ncclResetDebugInit, (), ())                                                                               \
  PASS(ncclResult_t, ncclCommInitRank, (ncclComm_t* comm, int ranks, ncclUniqueId id, int rank),                       \
       (comm, ranks, id, rank))                                                                                        \
  PASS(ncclResult_t, ncclCommInitRankConfig,                                                                           \
       (ncclComm_t* comm, int ranks, ncclUniqueId id, int rank, ncclConfig_t* config),                                 \
       (comm, ranks, id, rank, config))                                                                                \
  PASS(ncclResult_t, ncclCommInitRankScalable,                                                                         \
       (ncclComm_t* comm, int ranks, int rank, int count, ncclUniqueId* ids, ncclConfig_t* config),                    \
       (comm, ranks, rank, count, ids, config))                                                                        \
  PASS(ncclResult_t, ncclCommInitAll, (ncclComm_t* comms, int count, const int* devices), (comms, count, devices))     \
  PASS(ncclResult_t, ncclCommSplit, (ncclComm_t comm, int color, int key, ncclComm_t* made, ncclConfig_t* config),     \
       (comm, color, key, made, config))                                                                               \
  PASS(ncclResult_t, ncclCommCount, (const ncclComm_t comm, int* count), (comm, count))                                \
  PASS(ncclResult_t, ncclCommCuDevice, (const ncclComm_t comm, int* device), (comm, device))                           \
  PASS(ncclResult_t, ncclCommUserRank, (const ncclComm_t comm, int* rank), (comm, rank))                               \
  PASS(ncclResult_t, ncclCommRegister, (const ncclComm_t comm, void* buffer, size_t size, void** handle),              \
       (comm, buffer, size, handle))                                                                                   \
  PASS(ncclResult_t, ncclCommDeregister, (const ncclComm_t comm, void* handle), (comm, handle))                        \
  PASS(ncclResult_t, ncclCommWindowRegister,                                                                           \
       (ncclComm_t comm, void* buffer, size_t size, ncclWindow_t* window, int flags),                                  \
       (comm, buffer, size, window, flags))                                                                            \
  PASS(ncclResult_t, ncclCommWindowDeregister, (ncclComm_t comm, ncclWindow_t window), (comm, window))                 \
  PASS(ncclResult_t, ncclReduce,                                                                                       \
       (const void* send, void* recv, size_t count, ncclDataType_t type, ncclRedOp_t op, int root, ncclComm_t comm,    \
        cudaStream_t stream),                                                                                          \
       (send, recv, count, type, op, root, comm, stream))                                                              \
  PASS(ncclResult_t, ncclBcast,                                                                                        \
       (void* buffer, size_t count, ncclDataType_t type, int root, ncclComm_t comm, cudaStream_t stream),              \
       (buffer, count, type, root, comm, stream))                                                                      \
  PASS(ncclResult_t, ncclBroadcast,                                                                                    \
       (const void* send, void* recv, size_t count, ncclDataType_t type, int root, ncclComm_t comm,                    \
        cudaStream_t stream),                                                                                          \
       (send, recv, count, type, root, comm, stream))                                                                  \
  PASS(ncclResult_t, ncclReduceScatter,                                                                                \
       (const void* send, void* recv, size_t count, ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,              \
        cudaStream_t stream),                                                                                          \
       (send, recv, count, type, op, comm, stream))                                                                    \
  PASS(ncclResult_t, ncclAllGather,                                                                                    \
       (const void* send, void* recv, size_t count, ncclDataType_t type, ncclComm_t comm, cudaStream_t stream),        \
       (send, recv, count, type, comm, stream))                                                                        \
  PASS(ncclResult_t, ncclAlltoAll,                                                                                     \
       (const void* send, void* recv, size_t count, ncclDataType_t type, ncclComm_t comm, cudaStream_t stream),        \
       (send, recv, count, type, comm, stream))                                                                        \
  PASS(ncclResult_t, ncclGather,                                                                                       \
       (const void* send, void* recv, size_t count, ncclDataType_t type, int root, ncclComm_t comm,                    \
        cudaStream_t stream),                                                                                          \
       (send, recv, count, type, root, comm, stream))                                                                  \
  PASS(ncclResult_t, ncclScatter,                                                                                      \
       (const void* send, void* recv, size_t count, ncclDataType_t type, int root, ncclComm_t comm,                    \
        cudaStream_t stream),                                                                                          \
       (send, recv, count, type, root, comm, stream))                                                                  \
  PASS(ncclResult_t, ncclSend,                                                                                         \
       (const void* send, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream),          \
       (send, count, type, peer, comm, stream))                                                                        \
  PASS(ncclResult_t, ncclRecv,                                                                                         \
       (void* recv, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream),                \
       (recv, count, type, peer, comm, stream))                                                                        \
  BPS_NCCL_DEVICE_FUNCTIONS(PASS)

// nccl_device.h
#define BPS_NCCL_DEVICE_FUNCTIONS(PASS)                                                                                \
  PASS(ncclResult_t, ncclDevCommCreate,                                                                                \
       (ncclComm_t comm, ncclDevCommRequirements_t const* wanted, ncclDevComm_t* made), (comm, wanted, made))          \
  PASS(ncclResult_t, ncclDevCommDestroy, (ncclComm_t comm, ncclDevComm_t const* made), (comm, made))                   \
  PASS(ncclTeam_t, ncclTeamWorld, (ncclComm_t comm), (comm))                                                           \
  PASS(ncclTeam_t, ncclTeamLsa, (ncclComm_t comm), (comm))                                                             \
  PASS(ncclTeam_t, ncclTeamRail, (ncclComm_t comm), (comm))                                                            \
  PASS(int, ncclTeamRankToWorld, (ncclComm_t comm, ncclTeam_t team, int rank), (comm, team, rank))                     \
  PASS(int, ncclTeamRankToLsa, (ncclComm_t comm, ncclTeam_t team, int rank), (comm, team, rank))                       \
  PASS(ncclResult_t, ncclLsaBarrierCreateRequirement,                                                                  \
       (ncclTeam_t team, int count, ncclLsaBarrierHandle_t* handle, ncclDevResourceRequirements_t* wanted),            \
       (team, count, handle, wanted))                                                                                  \
  PASS(ncclResult_t, ncclGinBarrierCreateRequirement,                                                                  \
       (ncclComm_t comm, ncclTeam_t team, int count, ncclGinBarrierHandle_t* handle,                                   \
        ncclDevResourceRequirements_t* wanted),                                                                        \
       (comm, team, count, handle, wanted))                                                                            \
  PASS(int, ncclLLA2ACalcSlots, (int elements, int elementSize), (elements, elementSize))                              \
  PASS(ncclResult_t, ncclLLA2ACreateRequirement,                                                                       \
       (int blocks, int slots, ncclLLA2AHandle_t* handle, ncclDevResourceRequirements_t* wanted),                      \
       (blocks, slots, handle, wanted))
// clang-format on
