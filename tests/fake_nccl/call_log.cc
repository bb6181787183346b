#include "tests/fake_nccl/call_log.h"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <thread>

#include "src/nccl/types.h"
#include "tests/fake_nccl/fake_nccl.h"

namespace bps::fake {
namespace {

struct CallLog {
  std::mutex mutex;
  std::string calls;
  std::map<std::string, std::pair<unsigned, int>> failures;
  std::atomic<int> slowLooks{0};
  std::atomic<unsigned> looks{0};
  std::atomic<uint64_t> sentBytes{0};
};
CallLog& callLog() {
  static auto* const made = new CallLog;  // never destroyed, because calls may come while static objects are destroyed
  return *made;
}

int logCall(const std::string& name, const std::string& call) {
  const bool looks = name == "ncclCommGetAsyncError";
  if (looks) std::this_thread::sleep_for(std::chrono::milliseconds(callLog().slowLooks.load()));
  const std::lock_guard lock(callLog().mutex);
  if (looks) ++callLog().looks;  // not recorded by name, because callers poll this function many times
  else callLog().calls += call + " ";
  const auto due = callLog().failures.find(name);
  if (due == callLog().failures.end() || --due->second.first > 0) return 0;
  const int result = due->second.second;
  callLog().failures.erase(due);
  return result;
}

}  // namespace

int record(const char* name) { return logCall(name, name); }
int record(const char* name, size_t count) { return logCall(name, std::string(name) + ":" + std::to_string(count)); }

void countSent(size_t bytes) { callLog().sentBytes += bytes; }

}  // namespace bps::fake

using bps::fake::callLog;

#define BPS_TEST_API extern "C" __attribute__((visibility("default")))

BPS_TEST_API const char* fakeNcclCalls() {
  thread_local std::string copy;
  const std::lock_guard lock(callLog().mutex);
  copy = callLog().calls;
  return copy.c_str();
}
BPS_TEST_API void fakeNcclClearCalls() {
  const std::lock_guard lock(callLog().mutex);
  callLog().calls.clear();
}
BPS_TEST_API void fakeNcclFail(const char* name, int result, unsigned after) {
  const std::lock_guard lock(callLog().mutex);
  callLog().failures[name] = {after, result};
}
BPS_TEST_API void fakeNcclDelayAsyncError(int milliseconds) { callLog().slowLooks = milliseconds; }
BPS_TEST_API unsigned fakeNcclAsyncErrorCalls() { return callLog().looks; }
BPS_TEST_API uint64_t fakeNcclSentBytes() { return callLog().sentBytes; }
