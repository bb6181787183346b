// The shared state of the fake driver. One mutex guards all of the state. The condition variable
// `changed` is notified when an operation ends.
#pragma once
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#define FAKE_CUDA extern "C" __attribute__((visibility("default")))

namespace bps::fake {

enum : int {
  kSuccess = 0,
  kInvalidValue = 1,
  kOutOfMemory = 2,
  kNotInitialized = 3,
  kNoDevice = 100,
  kInvalidDevice = 101,
  kInvalidContext = 201,
  kInvalidHandle = 400,
  kNotReady = 600,
  kAlreadyRegistered = 712,
  kNotRegistered = 713,
  kNotSupported = 801,
  kCaptureUnsupported = 900,
  kCaptureInvalidated = 901,
  kCaptureImplicit = 906,
};

struct Completion {  // the end of an operation in a stream
  bool done = false;
};
using CompletionPtr = std::shared_ptr<Completion>;

struct Operation {
  std::vector<CompletionPtr> after;
  std::function<void()> run;
  CompletionPtr completion;
};

// Runs operations one after another, for one stream or for several streams that share the queue.
struct Queue {
  std::deque<Operation> operations;
};

struct Context;
enum class Capture { kNone, kActive, kInvalidated };

struct Stream {
  Context* context = nullptr;
  bool blocking = true;  // waits for the legacy default stream
  std::shared_ptr<Queue> queue;
  CompletionPtr last = std::make_shared<Completion>(Completion{true});
  Capture capture = Capture::kNone;
  int captureMode = 0;
};

struct Event {
  Context* context = nullptr;
  CompletionPtr completion;  // null if the event is not yet recorded
};

struct Context {
  int device = 0;
  int retained = 0;
  Stream legacy;
  std::vector<Stream*> streams;
  std::map<int, std::vector<std::shared_ptr<Queue>>> shared;  // by priority, if streams share queues
  size_t nextShared = 0;
  // If the driver is strict:
  bool locked = false;                             // a function waits with the context's lock
  CompletionPtr lastCopy[2] = {nullptr, nullptr};  // out of the device, into the device
};

struct State {
  std::mutex mutex;
  std::condition_variable changed;
  bool initialized = false;
  std::vector<std::unique_ptr<Context>> primary;  // one per device
  std::map<std::string, uint64_t> calls;
  std::map<std::string, std::pair<unsigned, int>> failures;
  double copyRate = 0;
};
State& state();
unsigned setting(const char* name, unsigned fallback);
inline bool strict() { return setting("FAKE_CUDA_STRICT", 0) != 0; }

// The state of the calling thread.
struct Thread {
  std::vector<Context*> contexts;
  std::map<Context*, Stream*> defaultStreams;
  int captureMode = 0;  // as cuThreadExchangeStreamCaptureMode sets it; 0 is the global mode
};
Thread& thread();
inline Context* current() { return thread().contexts.empty() ? nullptr : thread().contexts.back(); }

// Every exported function begins with one of these three functions. Each counts the call of the
// named driver function, and returns an error if fakeCudaFail has requested an error for this call.
int enter(const char* name);           // has no requirements
int enterInContext(const char* name);  // requires a current context
int enterUnsafe(const char* name);     // requires a current context; for functions that are unsafe during a capture
using Lock = std::unique_lock<std::mutex>;

// The functions below do nothing unless the driver is strict. The caller must hold the lock of the state.
// Waits until no function waits with the lock of the context.
void awaitContext(Lock& lock, const Context& context);
// Waits, with the lock of the context, until all operations in its streams have ended.
void drainContext(Lock& lock, Context& context);

// Returns the stream of a handle. The handles null, 1 and 2 name default streams of the current
// context. The caller must hold the lock.
Stream* streamOf(void* handle);
// Adds an operation at the end of a stream. The caller must hold the lock.
CompletionPtr enqueue(Stream& stream, std::function<void()> run, const CompletionPtr& after = nullptr);

// Returns the address at which the CPU can access the memory of the pointer.
void* alias(const void* pointer);
bool isDeviceMemory(const void* pointer);
// True if some of the bytes are neither in device memory nor in pinned memory.
bool isPageable(const void* pointer, size_t bytes);

}  // namespace bps::fake
