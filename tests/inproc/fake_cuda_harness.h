// A machine with CUDA devices for tests: the fake driver (tests/fake_cuda) and helpers that use it as a program would.
// Devices 0 and 1 behave like real ones; device 2's streams cannot wait for a value in memory.
#pragma once
#include <future>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "src/cuda/device.h"
#include "tests/fake_cuda/fake_cuda.h"
#include "tests/support/cluster.h"
#include "tests/support/data.h"

namespace bps::test {

// The fake driver's own functions, see fake_cuda.h.
struct FakeCudaApi {
  decltype(&fakeCudaCalls) calls;
  decltype(&fakeCudaFail) fail;
  decltype(&fakeCudaCopyRate) setCopyRate;
  decltype(&fakeCudaAlias) alias;
  decltype(&fakeCudaLaunch) launch;
};
const FakeCudaApi& fakeCuda();
const cuda::Api& api();
cuda::Device& device(int ordinal);

// A function of the driver that bps does not use.
void* driverFunction(const char* name);

enum class Memory { kDevice, kManaged, kPinned, kRegistered, kPageable };

// Memory of one kind; the test may read and write it wherever it is. The device's context must be current.
class Buffer {
 public:
  Buffer(Memory kind, size_t bytes);
  Buffer(Memory kind, const Bytes& content);
  Buffer(const Buffer&) = delete;
  ~Buffer();
  void* get() const { return pointer_; }
  uint8_t* bytes() const { return static_cast<uint8_t*>(fakeCuda().alias(pointer_)); }
  Bytes content() const { return Bytes(bytes(), bytes() + size_); }

 private:
  Memory kind_;
  size_t size_;
  void* pointer_ = nullptr;
};

// A stream of the application.
class AppStream {
 public:
  AppStream();
  ~AppStream();
  cuda::Stream get() const { return stream_; }
  // Runs `body` as a kernel.
  void run(std::function<void()> body) const;
  // Blocks the stream until release() is called.
  std::function<void()> hold() const;
  bool idle() const;
  void synchronize() const;

 private:
  cuda::Stream stream_ = nullptr;
};

// The path of a file in the directory of this program.
std::string siblingPath(const char* name);

// The settings of a job whose ranks use CUDA.
Env cudaEnv();

AllReduceCall callOn(cuda::Stream stream, const void* send, void* recv, size_t count, DataType type);

struct Inputs {
  Inputs(DataType type_, size_t count_, size_t ranks, CallOp op_ = CallOp::kSum) : type(type_), count(count_), op(op_) {
    for (size_t rank = 0; rank < ranks; ++rank) {
      of.push_back(makeInput(type, count, rank));
      scalars.push_back(makeScalar(type, rank));
    }
    want = expected({type, op, count, ranks, 1}, of, scalars);
  }
  DataType type;
  size_t count;
  CallOp op;
  std::vector<Bytes> of;
  std::vector<ScalarBits> scalars;
  Bytes want;
};

struct BufferPlacement {
  Memory send = Memory::kDevice, recv = Memory::kDevice;
  bool inPlace = false;
};

Status compare(const Buffer& buffer, const Bytes& want, const char* what);
// Issues one call on this rank and its stream, and compares the result with the expected one.
Status callAndCheck(Communicator& comm, const AppStream& stream, const Inputs& inputs,
                    const BufferPlacement& placement);

// The bytes copied up and down the links of each GPU of a described machine, by kind, and the number of calls.
using GpuLinks = std::map<std::string, std::map<std::string, uint64_t>>;
GpuLinks gpuLinksOf(const std::string& described);

}  // namespace bps::test
