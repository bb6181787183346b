#include "tests/no_gpu/cuda_runtime_stub.h"

#include <dlfcn.h>
#include <link.h>
#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string_view>

#include "src/base/format.h"
#include "src/base/memory.h"
#include "tests/no_gpu/symbols.h"

namespace bps::no_gpu {
namespace {

constexpr int kSuccess = 0, kNotSupported = 801;
constexpr int kVersion = 13000;
constexpr int kComputeMajor = 8, kComputeMinor = 0;
// Values of the CUDA enumeration cudaDeviceAttr.
constexpr int kComputeCapabilityMajor = 75, kComputeCapabilityMinor = 76, kMostSharedMemory = 97;

int unsupported(const char* name) {
  if (std::getenv("NO_GPU_VERBOSE") != nullptr) std::fprintf(stderr, "no GPU: %s\n", name);
  return kNotSupported;
}
int nothing() { return kSuccess; }

// These functions replace functions of the CUDA driver, which NCCL gets through the CUDA runtime.
int driverError() { return kNotSupported; }
int currentContext(void** context) {
  static int theOne;
  *context = &theOne;
  return kSuccess;
}
int driverDevice(int* device, int) { return *device = 0, kSuccess; }
int uuid(void* bytes, int) { return std::memset(bytes, 1, 16), kSuccess; }
int noAttribute(int* value, int, int) { return *value = 0, kSuccess; }
int errorText(int, const char** text) { return *text = "there is no GPU", kSuccess; }

void* driverFunction(std::string_view name) {
  const std::map<std::string_view, void*> known{{"cuCtxGetCurrent", reinterpret_cast<void*>(currentContext)},
                                                {"cuDeviceGet", reinterpret_cast<void*>(driverDevice)},
                                                {"cuDeviceGetUuid", reinterpret_cast<void*>(uuid)},
                                                {"cuDeviceGetAttribute", reinterpret_cast<void*>(noAttribute)},
                                                {"cuGetErrorString", reinterpret_cast<void*>(errorText)},
                                                {"cuGetErrorName", reinterpret_cast<void*>(errorText)}};
  const auto found = known.find(name);
  return found != known.end() ? found->second : reinterpret_cast<void*>(driverError);
}

int driverEntryPoint(const char* name, void** function, unsigned, unsigned long long, int* found) {
  *function = driverFunction(name);
  if (found != nullptr) *found = 0;
  return kSuccess;
}

int driverEntryPointUnversioned(const char* name, void** function, unsigned long long, int* found) {
  return driverEntryPoint(name, function, kVersion, 0, found);
}

int device(int* out) { return *out = 0, kSuccess; }
int one(int* out) { return *out = 1, kSuccess; }
int version(int* out) { return *out = kVersion, kSuccess; }
int attribute(int* value, int which, int) {
  *value = which == kComputeCapabilityMajor   ? kComputeMajor
           : which == kComputeCapabilityMinor ? kComputeMinor
           : which == kMostSharedMemory       ? 163 << 10
                                              : 0;
  return kSuccess;
}
// Fills the members of cudaDeviceProp that NCCL reads: the name and the memory size. Both members
// are at the front.
int properties(char* out, int) {
  constexpr size_t kMemoryAt = 288, kMemory = size_t{16} << 30;
  std::memset(out, 0, kMemoryAt);
  std::memcpy(out + kMemoryAt, &kMemory, sizeof kMemory);
  return kSuccess;
}
int busId(char* text, int bytes, int) { return std::snprintf(text, static_cast<size_t>(bytes), "0000:01:00.0"), 0; }
int allocate(void** memory, size_t bytes) {
  *memory = std::aligned_alloc(kPageBytes, roundUp(bytes == 0 ? 1 : bytes, kPageBytes));
  if (*memory != nullptr) std::memset(*memory, 0, bytes);
  return *memory != nullptr ? kSuccess : kNotSupported;
}
int release(void* memory) { return std::free(memory), kSuccess; }
int samePointer(void** devicePointer, void* hostPointer, unsigned) { return *devicePointer = hostPointer, kSuccess; }
int copy(void* to, const void* from, size_t bytes) { return std::memcpy(to, from, bytes), kSuccess; }
int set(void* memory, int value, size_t bytes) { return std::memset(memory, value, bytes), kSuccess; }
int object(void** handle) {  // makes a stream, an event or a memory pool
  static int theOne;
  *handle = &theOne;
  return kSuccess;
}
const char* errorString(int) { return "there is no GPU"; }

const std::map<std::string_view, void*>& runtime() {
  static const std::map<std::string_view, void*> table = [] {
    std::map<std::string_view, void*> t;
    const auto is = [&](auto function, std::initializer_list<std::string_view> names) {
      for (const std::string_view name : names) t[name] = reinterpret_cast<void*>(function);
    };
    is(driverEntryPoint, {"cudaGetDriverEntryPointByVersion"});
    is(driverEntryPointUnversioned, {"cudaGetDriverEntryPoint"});
    is(device, {"cudaGetDevice"});
    is(one, {"cudaGetDeviceCount"});
    is(version, {"cudaDriverGetVersion", "cudaRuntimeGetVersion"});
    is(attribute, {"cudaDeviceGetAttribute"});
    is(properties, {"cudaGetDeviceProperties", "cudaGetDeviceProperties_v2"});
    is(busId, {"cudaDeviceGetPCIBusId"});
    is(allocate, {"cudaMalloc", "cudaHostAlloc"});
    is(release, {"cudaFree", "cudaFreeHost"});
    is(samePointer, {"cudaHostGetDevicePointer"});
    is(copy, {"cudaMemcpy", "cudaMemcpyAsync"});
    is(set, {"cudaMemset", "cudaMemsetAsync"});
    is(object, {"cudaStreamCreateWithFlags", "cudaEventCreateWithFlags", "cudaEventCreate", "cudaMemPoolCreate"});
    is(errorString, {"cudaGetErrorString", "cudaGetErrorName"});
    is(nothing, {"cudaSetDevice", "cudaGetLastError", "cudaPeekAtLastError", "cudaThreadExchangeStreamCaptureMode",
                 "cudaStreamDestroy", "cudaEventDestroy", "cudaEventRecord", "cudaEventQuery", "cudaEventSynchronize",
                 "cudaStreamSynchronize", "cudaStreamWaitEvent", "cudaStreamQuery", "cudaDeviceSynchronize",
                 "cudaMemPoolSetAttribute", "cudaMemPoolTrimTo", "cudaMemPoolDestroy", "cudaDeviceSetLimit",
                 "cudaFuncGetAttributes", "cudaFuncSetAttribute"});
    return t;
  }();
  return table;
}

// The machine code of a jump, which overwrites the beginning of a function. If the stub does not
// implement the function, the jump passes the function's name as an argument.
struct Jump {
  uint8_t code[22] = {0x48, 0xbf, 0, 0, 0, 0, 0, 0, 0, 0, 0x48, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xe0};
};
constexpr size_t kShortJump = 12;

void redirect(uint8_t* function, const char* name) {
  const auto found = runtime().find(name);
  const bool ours = found != runtime().end();
  const void* target = ours ? found->second : reinterpret_cast<const void*>(unsupported);
  const char* argument = ours ? nullptr : ::strdup(name);  // never freed, because the library stays loaded
  Jump jump;
  std::memcpy(jump.code + 2, &argument, sizeof argument);
  std::memcpy(jump.code + 12, &target, sizeof target);
  const size_t skip = ours ? sizeof jump.code - kShortJump : 0;
  std::memcpy(function, jump.code + skip, sizeof jump.code - skip);
}

}  // namespace

Status replaceCudaRuntime(void* library) {
#if !defined(__x86_64__)
  return {Code::kSystem, "the stub of the CUDA runtime supports x86-64 only"};
#endif
  link_map* map = nullptr;
  if (::dlinfo(library, RTLD_DI_LINKMAP, &map) != 0) return {Code::kSystem, ::dlerror()};
  size_t replaced = 0;
  Status failed;
  const auto replace = [&](const char* name, uint64_t address, uint64_t bytes) {
    if (std::strncmp(name, "cuda", 4) != 0 || name[4] < 'A' || name[4] > 'Z' || bytes < sizeof(Jump)) return;
    auto* function = reinterpret_cast<uint8_t*>(map->l_addr + address);
    auto* page = reinterpret_cast<uint8_t*>(reinterpret_cast<uintptr_t>(function) / kPageBytes * kPageBytes);
    if (::mprotect(page, 2 * kPageBytes, PROT_READ | PROT_WRITE | PROT_EXEC) != 0)
      failed = systemFailure("mprotect of libnccl's code", errno);
    else redirect(function, name), ++replaced;
  };
  BPS_TRY(forEachFunction(map->l_name, replace));
  BPS_TRY(std::move(failed));
  if (replaced == 0) return failure(Code::kSystem, "{}: has no CUDA runtime inside", map->l_name);
  return {};
}

}  // namespace bps::no_gpu
