// A machine with CUDA devices for tests: the fake driver (tests/fake_cuda), and helpers that use
// the fake driver as a program would. Five devices behave like real devices, except that the streams of
// device 2 cannot wait for a value in memory.
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

// The functions that only the fake driver has; fake_cuda.h explains them.
struct FakeCudaApi {
  decltype(&fakeCudaCalls) calls;
  decltype(&fakeCudaFail) fail;
  decltype(&fakeCudaCopyRate) setCopyRate;
  decltype(&fakeCudaAlias) alias;
  decltype(&fakeCudaLaunch) launch;
  decltype(&fakeCudaFirstLaunch) firstLaunch;
};
const FakeCudaApi& fakeCuda();
const cuda::Api& api();
cuda::Device& device(int ordinal);

// Finds a driver function that bps does not use.
void* driverFunction(const char* name);

enum class Memory { kDevice, kManaged, kPinned, kRegistered, kPageable };

// Memory of one kind. The test's CPU code may read and write the memory of every kind, even device
// memory. The context of the device must be current.
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
  // Runs `body` as a kernel on the stream.
  void run(std::function<void()> body) const;
  // Blocks the stream until the caller calls the returned function.
  std::function<void()> hold() const;
  bool idle() const;
  void synchronize() const;

 private:
  cuda::Stream stream_ = nullptr;
};

// Returns the path of a file in the directory of this program.
std::string siblingPath(const char* name);

// Returns the settings of a job whose ranks use CUDA.
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
// Issues one call on this rank and its stream, and compares the result with the expected result.
Status callAndCheck(Communicator& comm, const AppStream& stream, const Inputs& inputs,
                    const BufferPlacement& placement);

// Maps each GPU of a described machine to the bytes that were copied up and down its links, by kind
// of copy.
using GpuLinks = std::map<std::string, std::map<std::string, uint64_t>>;
GpuLinks gpuLinksOf(const std::string& described);

}  // namespace bps::test
