// The shared state of the fake driver. One mutex guards all of it; `changed` is notified when an operation ends.
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

struct Completion {  // an operation that was put into a stream
  bool done = false;
};
using CompletionPtr = std::shared_ptr<Completion>;

struct Operation {
  std::vector<CompletionPtr> after;
  std::function<void()> run;
  CompletionPtr completion;
};

// Runs operations one after the other, for one stream or for all streams that share it.
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
  CompletionPtr completion;  // null: not yet recorded
};

struct Context {
  int device = 0;
  int retained = 0;
  Stream legacy;
  std::vector<Stream*> streams;
  std::map<int, std::vector<std::shared_ptr<Queue>>> shared;  // by priority, if streams share queues
  size_t nextShared = 0;
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

// The state of the calling thread.
struct Thread {
  std::vector<Context*> contexts;
  std::map<Context*, Stream*> defaultStreams;
  int captureMode = 0;  // of cuThreadExchangeStreamCaptureMode: global
};
Thread& thread();
inline Context* current() { return thread().contexts.empty() ? nullptr : thread().contexts.back(); }

// Every exported function begins with one of these: it counts the call and returns an error if one is due.
int enter(const char* name);           // no requirements
int enterInContext(const char* name);  // needs a current context
int enterUnsafe(const char* name);     // the same, and the call is unsafe while other threads capture
using Lock = std::unique_lock<std::mutex>;

// Returns the stream of a handle; null, 1 and 2 are the default streams of the current context. Requires the lock.
Stream* streamOf(void* handle);
// Adds an operation at the end of a stream. Requires the lock.
CompletionPtr enqueue(Stream& stream, std::function<void()> run, const CompletionPtr& after = nullptr);

// Returns the bytes' address for the CPU.
void* alias(const void* pointer);
// True if some of the bytes are neither device memory nor pinned.
bool isPageable(const void* pointer, size_t bytes);

}  // namespace bps::fake
