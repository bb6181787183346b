// Runs one rank of an NCCL communicator on a machine without a GPU. Usage: nccl_rank LIBNCCL RANK
// NRANKS FILE. Rank 0 writes the unique id to FILE; the other ranks wait for FILE. All code is
// NCCL's own except the CUDA runtime (see cuda_runtime_stub.h). NCCL_DEBUG=INFO shows what NCCL
// does with its network. The exit status is 0 if the communicator was created and destroyed. The
// exit status is 77 if this libnccl cannot be used; the last line of the output says why.
#include <dlfcn.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>

#include "tests/no_gpu/cuda_runtime_stub.h"

namespace {

struct UniqueId {
  std::array<char, 128> bytes;
};
using GetUniqueId = int (*)(UniqueId*);
using InitRank = int (*)(void** comm, int ranks, UniqueId id, int rank);
using Destroy = int (*)(void* comm);
using LastError = const char* (*)(void* comm);

template <class F>
F symbol(void* library, const char* name) {
  return reinterpret_cast<F>(::dlsym(library, name));
}

bool read(const std::string& path, UniqueId& id) {
  std::ifstream file(path, std::ios::binary);
  return static_cast<bool>(file.read(id.bytes.data(), static_cast<std::streamsize>(id.bytes.size())));
}

int share(void* library, int rank, const std::string& path, UniqueId& id) {
  if (rank == 0) {
    const int result = symbol<GetUniqueId>(library, "ncclGetUniqueId")(&id);
    if (result != 0) return result;
    const std::string unfinished = path + ".new";
    std::ofstream(unfinished, std::ios::binary).write(id.bytes.data(), static_cast<std::streamsize>(id.bytes.size()));
    return std::rename(unfinished.c_str(), path.c_str());
  }
  for (int tries = 0; tries < 3000 && !read(path, id); ++tries)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) return std::fprintf(stderr, "usage: %s LIBNCCL RANK NRANKS FILE\n", argv[0]), 2;
  void* library = ::dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return std::printf("no libnccl: %s\n", ::dlerror()), 77;
  const bps::Status replaced = bps::no_gpu::replaceCudaRuntime(library);
  if (!replaced.ok()) return std::printf("%s\n", replaced.message()), 77;
  UniqueId id{};
  void* comm = nullptr;
  int result = share(library, std::atoi(argv[2]), argv[4], id);
  if (result == 0)
    result = symbol<InitRank>(library, "ncclCommInitRank")(&comm, std::atoi(argv[3]), id, std::atoi(argv[2]));
  std::printf("communicator: %d %s\n", result,
              result == 0 ? "" : symbol<LastError>(library, "ncclGetLastError")(nullptr));
  std::fflush(stdout);
  if (result == 0) result = symbol<Destroy>(library, "ncclCommDestroy")(comm);
  std::printf("destroyed: %d\n", result);
  return result == 0 ? 0 : 1;
}
