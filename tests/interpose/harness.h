// The harness of the interposer's tests. A test program has several processes, each of which acts
// as a machine. Each process is linked with a fake NCCL and runs under LD_PRELOAD. Every process
// runs the function of the scenario.
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "src/interpose/nccl/exported.h"
#include "tests/fake_nccl/fake_nccl.h"

namespace bps::test {

// Data that all processes of a scenario share.
struct SharedPage {
  std::atomic<int> idsMade;
  ncclUniqueId ids[8];
  std::atomic<int> arrived[32];  // the number of processes that have reached each barrier
};

struct Rank {
  int rank, nRanks;
  SharedPage* page;

  // Returns the scenario's unique id with this number. Rank 0 makes the unique id.
  ncclUniqueId id(int number) const;
  ncclComm_t makeComm(int number = 0) const;
  // Waits until all processes have reached the barrier with this number.
  void barrier(int point) const;
  // Makes every `ranksOfOne` ranks act as one machine, each rank on a separate CUDA device. A
  // scenario must call this function first.
  void placeRanksOnMachines(int ranksOfOne) const;
};

using Environment = std::vector<std::pair<const char*, const char*>>;  // a null value means that the variable is unset

struct Scenario {
  const char* name;
  int ranks;
  Environment environment;  // added to the environment of the test
  void (*body)(const Rank&);
};
std::vector<Scenario>& scenarios();

struct Register {
  Register(const char* name, int ranks, Environment environment, void (*body)(const Rank&)) {
    scenarios().push_back({name, ranks, std::move(environment), body});
  }
};

// Ends the process and prints the text and the location.
[[noreturn]] void failed(const char* file, int line, const std::string& what);

// Returns the calls that the fake NCCL has received since the previous takeNcclCalls().
std::string takeNcclCalls();
bool contains(const std::string& text, const std::string& part);

// True if buffers are on a device of the fake CUDA driver (BPS_DEVICE=cuda). False if buffers are
// in host memory.
bool onDevice();
// stream() returns the stream of the scenario, and synchronize() waits for a stream. Without CUDA,
// a call has ended when it returns.
cudaStream_t stream();
cudaStream_t newStream();
void synchronize(cudaStream_t which = stream());
bool idle(cudaStream_t which);
// Runs `body` as a kernel of the fake CUDA driver on stream().
void launch(void (*body)(void*), void* argument);

// Functions of the fake CUDA driver, which fake_cuda.h explains. These functions return the number
// of calls and the bytes copied so far, set the rate of later copies, and make a driver function
// fail. Without CUDA, these functions return 0 and do nothing.
uint64_t cudaCallCount(const char* function);
uint64_t copiedBytes();
void setCopyRate(double bytesPerSecond);
void failCuda(const char* function, unsigned after, int error);

// An array of floats in memory that NCCL can use in the scenario.
class Buffer {
 public:
  explicit Buffer(size_t count, float value = 0);
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer();
  void* data() const { return data_; }
  float* begin() const { return floats_; }  // the address for the CPU
  float* end() const { return floats_ + count_; }
  size_t size() const { return count_; }
  bool all(float value) const;
  bool isSum(int nRanks) const;  // whether the buffer has the sum of all ranks' contributions

 private:
  size_t count_;
  void* data_;
  float* floats_;
};
void contribute(const Buffer& buffer, int rank);

// All-reduces `count` floats, waits, and checks the sum. Returns the result of the call, or an
// error that occurs later. After an error the stream stands, and its buffers stay allocated.
ncclResult_t allReduce(const Rank& rank, ncclComm_t comm, size_t count, cudaStream_t on = stream());
// Waits until the communicator has an error. The scenario's time limit ends an endless wait.
ncclResult_t awaitError(ncclComm_t comm);
// Makes the communicator negotiate with one large call. Discards the record of NCCL calls.
void negotiate(const Rank& rank, ncclComm_t comm);

// Numbers of elements. kLarge is above BPS_NCCL_MIN_BYTES=4K, which the tests set, and kSmall is
// below it.
constexpr size_t kLarge = 4096, kSmall = 8;
constexpr size_t kGpuGroupCount = 64 * kLarge;  // large enough for local GPU groups

}  // namespace bps::test

#define BPS_CHECK(what) ((what) ? (void)0 : ::bps::test::failed(__FILE__, __LINE__, #what))
#define BPS_EQUAL(a, b)                                                                                            \
  do {                                                                                                             \
    const auto& a_ = (a);                                                                                          \
    const auto& b_ = (b);                                                                                          \
    if (!(a_ == b_)) ::bps::test::failed(__FILE__, __LINE__, fmt::format("{} is \"{}\", not \"{}\"", #a, a_, b_)); \
  } while (false)
#define BPS_NCCL(result) BPS_EQUAL(static_cast<int>(result), static_cast<int>(ncclSuccess))
#define BPS_SCENARIO(name, ranks, ...)                                                                    \
  static void name(const ::bps::test::Rank& self);                                                        \
  static const ::bps::test::Register name##_(#name, ranks, ::bps::test::Environment{__VA_ARGS__}, &name); \
  static void name([[maybe_unused]] const ::bps::test::Rank& self)
