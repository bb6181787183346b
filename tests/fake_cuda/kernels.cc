// The fake driver's modules and kernels. The fake runs one kernel, the one of src/cuda/sum, with the arithmetic that
// the GPU's code is compiled from. The image is not executed, but it must be PTX text with this kernel in it.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <string>

#include "src/cuda/sum/sum_kernel.h"
#include "tests/fake_cuda/state.h"

using namespace bps::fake;
using bps::cuda::SumArguments;

namespace {

constexpr int kInvalidImage = 200, kNoBinaryForGpu = 209, kInvalidPtx = 218, kNotFound = 500;
constexpr int kArchitecture = 80;  // as cuDeviceGetAttribute reports it
constexpr unsigned kMaxBlockThreads = 1024, kMaxGrid = 65535;

struct Module {
  Context* context;
  std::string text;
};
struct Function {
  Module* module;
  size_t parameterBytes;
  bool launched = false;
};

// The modules and functions exist until the process ends.
template <class T>
T* keep(T made) {
  static auto* const all = new std::deque<T>;
  return &all->emplace_back(std::move(made));
}

// Returns the number after the first `label` in the text, or 0.
unsigned long numberAfter(const std::string& text, const std::string& label) {
  const size_t at = text.find(label);
  return at == std::string::npos ? 0 : std::strtoul(text.c_str() + at + label.size(), nullptr, 10);
}

// Reads the parameter buffer of `extra`. Returns false if `extra` is malformed or has another size.
bool readParameters(void** extra, size_t bytes, SumArguments& parameters) {
  const void* buffer = nullptr;
  const size_t* given = nullptr;
  for (; *extra != nullptr; extra += 2) {
    if (*extra == reinterpret_cast<void*>(1)) buffer = extra[1];
    else if (*extra == reinterpret_cast<void*>(2)) given = static_cast<const size_t*>(extra[1]);
    else return false;
  }
  if (buffer == nullptr || given == nullptr || *given != bytes || bytes != sizeof parameters) return false;
  std::memcpy(&parameters, buffer, bytes);
  return true;
}

// A GPU that accesses other memory or a misaligned element stops all work of its context. The fake ends the process.
void requireMemory(const void* memory, size_t bytes, size_t alignment) {
  if (bytes == 0 || (!isPageable(memory, bytes) && reinterpret_cast<uintptr_t>(memory) % alignment == 0)) return;
  std::fprintf(stderr, "fake CUDA: a kernel accesses %zu bytes at %p, which is no memory of the device\n", bytes,
               memory);
  std::abort();
}

void runSum(SumArguments sum, uint64_t threads) {
  const size_t element = bps::elementBytes(static_cast<bps::DataType>(sum.type));
  requireMemory(sum.target, sum.count * element, element);
  requireMemory(sum.own, sum.count * element, element);
  const uint64_t others = sum.ranks - 1;
  if (sum.count > 0 && others > 0)
    requireMemory(sum.received, (others - 1) * sum.strideBytes + sum.count * element, element);
  sum.target = alias(sum.target);
  sum.own = alias(sum.own);
  sum.received = alias(sum.received);
  for (uint64_t thread = 0; thread < threads && thread < sum.count; ++thread)
    bps::cuda::sumInRankOrder(sum, thread, threads);
}

}  // namespace

FAKE_CUDA int cuModuleLoadData(void** module, const void* image) {
  const int failed = enterUnsafe("cuModuleLoadData");
  if (failed != kSuccess) return failed;
  std::string text = static_cast<const char*>(image);
  if (text.find(".version ") == std::string::npos) return kInvalidImage;
  if (numberAfter(text, ".address_size ") != 64) return kInvalidPtx;
  const unsigned long target = numberAfter(text, ".target sm_");
  if (target == 0 || target > kArchitecture) return kNoBinaryForGpu;
  Lock lock(state().mutex);
  drainContext(lock, *current());
  return *module = keep(Module{current(), std::move(text)}), kSuccess;
}

FAKE_CUDA int cuModuleGetFunction(void** function, void* handle, const char* name) {
  const int failed = enterInContext("cuModuleGetFunction");
  if (failed != kSuccess) return failed;
  auto* module = static_cast<Module*>(handle);
  const std::string kernel = name;
  if (module->context != current()) return kInvalidHandle;
  if (kernel != bps::cuda::kSumKernelName || module->text.find(".entry " + kernel + "(") == std::string::npos)
    return kNotFound;
  const Lock lock(state().mutex);
  return *function = keep(Function{module, numberAfter(module->text, ".b8 " + kernel + "_param_0[")}), kSuccess;
}

FAKE_CUDA int cuLaunchKernel(void* handle, unsigned gridX, unsigned gridY, unsigned gridZ, unsigned blockX,
                             unsigned blockY, unsigned blockZ, unsigned, void* stream, void** parameters,
                             void** extra) {
  const int failed = enterInContext("cuLaunchKernel");
  if (failed != kSuccess) return failed;
  auto* function = static_cast<Function*>(handle);
  const bool sized = gridX >= 1 && gridX <= kMaxGrid && gridY == 1 && gridZ == 1 && blockX >= 1 &&
                     blockX <= kMaxBlockThreads && blockY == 1 && blockZ == 1;
  SumArguments sum{};
  if (!sized || parameters != nullptr || extra == nullptr || !readParameters(extra, function->parameterBytes, sum))
    return kInvalidValue;
  Lock lock(state().mutex);
  if (function->module->context != current() || streamOf(stream)->context != current()) return kInvalidHandle;
  if (!function->launched) drainContext(lock, *current());
  function->launched = true;
  const uint64_t threads = uint64_t{gridX} * blockX;
  enqueue(*streamOf(stream), [=] { runSum(sum, threads); });
  return kSuccess;
}
