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
  BPS_NCCL_NEWER_FUNCTIONS(PASS)                                                                                       \
  BPS_NCCL_DEVICE_FUNCTIONS(PASS)

// NCCL 2.29 and 2.30. An older library has no such functions; the stand-in then logs this and returns an error.
#define BPS_NCCL_NEWER_FUNCTIONS(PASS)                                                                                 \
  PASS(ncclResult_t, ncclCommGetUniqueId, (ncclComm_t comm, ncclUniqueId* id), (comm, id))                             \
  PASS(ncclResult_t, ncclCommGrow,                                                                                     \
       (ncclComm_t comm, int ranks, const ncclUniqueId* id, int rank, ncclComm_t* made, ncclConfig_t* config),         \
       (comm, ranks, id, rank, made, config))                                                                          \
  PASS(ncclResult_t, ncclCommSuspend, (ncclComm_t comm, int flags), (comm, flags))                                     \
  PASS(ncclResult_t, ncclCommResume, (ncclComm_t comm), (comm))                                                        \
  PASS(ncclResult_t, ncclCommMemStats,                                                                                 \
       (ncclComm_t comm, ncclCommMemStat_t which, uint64_t* value),                                                    \
       (comm, which, value))                                                                                           \
  PASS(ncclResult_t, ncclWinGetUserPtr,                                                                                \
       (ncclComm_t comm, ncclWindow_t window, void** pointer),                                                         \
       (comm, window, pointer))                                                                                        \
  PASS(ncclResult_t, ncclPutSignal,                                                                                    \
       (const void* local, size_t count, ncclDataType_t type, int peer, ncclWindow_t window, size_t offset, int        \
        signal, int context, unsigned int flags, ncclComm_t comm, cudaStream_t stream),                                \
       (local, count, type, peer, window, offset, signal, context, flags, comm, stream))                               \
  PASS(ncclResult_t, ncclSignal,                                                                                       \
       (int peer, int signal, int context, unsigned int flags, ncclComm_t comm, cudaStream_t stream),                  \
       (peer, signal, context, flags, comm, stream))                                                                   \
  PASS(ncclResult_t, ncclWaitSignal,                                                                                   \
       (int count, ncclWaitSignalDesc_t* signals, ncclComm_t comm, cudaStream_t stream),                               \
       (count, signals, comm, stream))                                                                                 \
  PASS(ncclResult_t, ncclParamBind, (ncclParamHandle_t* parameter, const char* key), (parameter, key))                 \
  PASS(ncclResult_t, ncclParamGetI8, (ncclParamHandle_t parameter, int8_t* out), (parameter, out))                     \
  PASS(ncclResult_t, ncclParamGetI16, (ncclParamHandle_t parameter, int16_t* out), (parameter, out))                   \
  PASS(ncclResult_t, ncclParamGetI32, (ncclParamHandle_t parameter, int32_t* out), (parameter, out))                   \
  PASS(ncclResult_t, ncclParamGetI64, (ncclParamHandle_t parameter, int64_t* out), (parameter, out))                   \
  PASS(ncclResult_t, ncclParamGetU8, (ncclParamHandle_t parameter, uint8_t* out), (parameter, out))                    \
  PASS(ncclResult_t, ncclParamGetU16, (ncclParamHandle_t parameter, uint16_t* out), (parameter, out))                  \
  PASS(ncclResult_t, ncclParamGetU32, (ncclParamHandle_t parameter, uint32_t* out), (parameter, out))                  \
  PASS(ncclResult_t, ncclParamGetU64, (ncclParamHandle_t parameter, uint64_t* out), (parameter, out))                  \
  PASS(ncclResult_t, ncclParamGetStr, (ncclParamHandle_t parameter, const char** out), (parameter, out))               \
  PASS(ncclResult_t, ncclParamGet,                                                                                     \
       (ncclParamHandle_t parameter, void* out, int most, int* length),                                                \
       (parameter, out, most, length))                                                                                 \
  PASS(ncclResult_t, ncclParamGetParameter, (const char* key, const char** value, int* length), (key, value, length))  \
  PASS(ncclResult_t, ncclParamGetAllParameterKeys, (const char*** table, int* length), (table, length))                \
  PASS(void, ncclParamDumpAll, (), ())

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
