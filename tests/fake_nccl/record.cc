#include "tests/fake_nccl/record.h"

#include <atomic>
#include <chrono>
#include <map>
#include <mutex>
#include <string>
#include <thread>

#include "src/nccl/types.h"
#include "tests/fake_nccl/fake_nccl.h"

namespace bps::fake {
namespace {

struct Memory {
  std::mutex mutex;
  std::string calls;
  std::map<std::string, std::pair<unsigned, int>> failures;
  std::atomic<int> slowLooks{0};
  std::atomic<unsigned> looks{0};
};
Memory& memory() {
  static auto* const made = new Memory;  // calls may come while static objects are destroyed
  return *made;
}

int remember(const std::string& name, const std::string& call) {
  const bool looks = name == "ncclCommGetAsyncError";
  if (looks) std::this_thread::sleep_for(std::chrono::milliseconds(memory().slowLooks.load()));
  const std::lock_guard lock(memory().mutex);
  if (looks) ++memory().looks;  // asked again and again
  else memory().calls += call + " ";
  const auto due = memory().failures.find(name);
  if (due == memory().failures.end() || --due->second.first > 0) return 0;
  const int result = due->second.second;
  memory().failures.erase(due);
  return result;
}

}  // namespace

int record(const char* name) { return remember(name, name); }
int record(const char* name, size_t count) { return remember(name, std::string(name) + ":" + std::to_string(count)); }

}  // namespace bps::fake

using bps::fake::memory;

#define BPS_TEST_API extern "C" __attribute__((visibility("default")))

BPS_TEST_API const char* fakeNcclCalls() {
  thread_local std::string copy;
  const std::lock_guard lock(memory().mutex);
  copy = memory().calls;
  return copy.c_str();
}
BPS_TEST_API void fakeNcclForget() {
  const std::lock_guard lock(memory().mutex);
  memory().calls.clear();
}
BPS_TEST_API void fakeNcclFail(const char* name, int result, unsigned after) {
  const std::lock_guard lock(memory().mutex);
  memory().failures[name] = {after, result};
}
BPS_TEST_API void fakeNcclSlowLooks(int milliseconds) { memory().slowLooks = milliseconds; }
BPS_TEST_API unsigned fakeNcclLooks() { return memory().looks; }
