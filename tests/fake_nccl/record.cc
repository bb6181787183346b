#include "tests/fake_nccl/record.h"

#include <map>
#include <mutex>
#include <string>

#include "src/interpose/nccl/types.h"
#include "tests/fake_nccl/fake_nccl.h"

namespace bps::fake {
namespace {

struct Memory {
  std::mutex mutex;
  std::string calls;
  std::map<std::string, int> failures;
};
Memory& memory() {
  static auto* const made = new Memory;  // calls may come while static objects are destroyed
  return *made;
}

int remember(const std::string& name, const std::string& call) {
  const std::lock_guard lock(memory().mutex);
  if (name != "ncclCommGetAsyncError") memory().calls += call + " ";  // asked again and again
  const auto node = memory().failures.extract(name);
  return node.empty() ? 0 : node.mapped();
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
BPS_TEST_API void fakeNcclFail(const char* name, int result) {
  const std::lock_guard lock(memory().mutex);
  memory().failures[name] = result;
}
