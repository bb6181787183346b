// The harness of the interposer's tests: programs of several processes, each of which acts as a machine. They link with
// NCCL (a fake) and run under LD_PRELOAD. Every process runs the scenario's function.
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
  std::atomic<int> arrived[32];  // at each barrier
};

struct Rank {
  int rank, nRanks;
  SharedPage* page;

  // The n-th id of the scenario; rank 0 makes it.
  ncclUniqueId id(int number) const;
  ncclComm_t makeComm(int number = 0) const;
  // Waits until all processes have reached this barrier.
  void barrier(int point) const;
  // From now on every `ranksOfOne` ranks act as one machine, each on its own CUDA device. Call this first.
  void placeRanksOnMachines(int ranksOfOne) const;
};

using Environment = std::vector<std::pair<const char*, const char*>>;  // null: unset

struct Scenario {
  const char* name;
  int ranks;
  Environment environment;  // in addition to the test's environment
  void (*body)(const Rank&);
};
std::vector<Scenario>& scenarios();

struct Register {
  Register(const char* name, int ranks, Environment environment, void (*body)(const Rank&)) {
    scenarios().push_back({name, ranks, std::move(environment), body});
  }
};

// Ends the process with the text and the location.
[[noreturn]] void failed(const char* file, int line, const std::string& what);

// Returns the calls of the fake NCCL since the last time.
std::string takeNcclCalls();
bool contains(const std::string& text, const std::string& part);

// True if buffers are on a device of the fake CUDA driver (BPS_DEVICE=cuda), false if in host memory.
bool onDevice();
// The scenario's stream, and a wait for it. On the host a call has ended when it returns.
cudaStream_t stream();
cudaStream_t newStream();
void synchronize(cudaStream_t which = stream());

// Functions of the fake CUDA driver, see fake_cuda.h: the number of calls, the bytes copied so far, the rate of later
// copies, and a call that fails. On the host they return 0 and do nothing.
uint64_t cudaCallCount(const char* function);
uint64_t copiedBytes();
void setCopyRate(double bytesPerSecond);
void failCuda(const char* function, unsigned after, int error);

// Floats in memory that the scenario's NCCL uses.
class Buffer {
 public:
  explicit Buffer(size_t count, float value = 0);
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer();
  void* data() const { return data_; }
  float* begin() const { return floats_; }  // for the CPU
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

// All-reduces `count` floats, waits, and checks the sum. Returns the call's result, or the later error.
ncclResult_t allReduce(const Rank& rank, ncclComm_t comm, size_t count, cudaStream_t on = stream());
// Makes the communicator negotiate with one large call, and discards the record of NCCL calls.
void negotiate(const Rank& rank, ncclComm_t comm);

// In elements; the tests set BPS_NCCL_MIN_BYTES=4K.
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
