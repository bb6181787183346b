// What a side is doing and how it ended, in memory that the supervisor shares: so that a call into the plugin that
// hangs or crashes is known by name.
//
// Only the side writes its record, except that a helper thread of it has a slot of its own. `ending` is stored last,
// with release order: whoever reads it with acquire order sees the detail and the measures.
#pragma once
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <string>

namespace bps::check {

enum class Call {
  kLoad,
  kInit,
  kDevices,
  kGetProperties,
  kListen,
  kConnect,
  kAccept,
  kRegMr,
  kDeregMr,
  kIsend,
  kIrecv,
  kIflush,
  kTest,
  kCloseSend,
  kCloseRecv,
  kCloseListen,
  kFinalize,
  kCount
};
inline constexpr auto kCalls = static_cast<size_t>(Call::kCount);
inline constexpr std::array<const char*, kCalls> kCallNames{
    "dlopen", "init",  "devices", "getProperties", "listen",    "connect",   "accept",      "regMr",   "deregMr",
    "isend",  "irecv", "iflush",  "test",          "closeSend", "closeRecv", "closeListen", "finalize"};
inline const char* nameOf(Call call) { return kCallNames[static_cast<size_t>(call)]; }

using Clock = std::chrono::steady_clock;  // the same in all processes
inline int64_t nowNs() { return std::chrono::nanoseconds(Clock::now().time_since_epoch()).count(); }

struct Slot {
  std::atomic<int> call{-1};  // under way, or -1
  std::atomic<int64_t> sinceNs{0};
  std::array<std::atomic<int64_t>, kCalls> longestNs{};
};

enum class Ending : int { kNone, kPassed, kFailed, kSkipped, kDeserted };  // kDeserted: only because the peer went

struct Measure {
  std::array<char, 32> name{};
  double value = 0;
};

struct SideRecord {
  Slot slot, helper;
  std::atomic<int> pid{0};
  std::atomic<Ending> ending{Ending::kNone};
  std::atomic<int64_t> endedNs{0};
  std::array<char, 600> detail{};
  std::array<Measure, 8> measures{};

  void finish(Ending how, const std::string& why) {
    const size_t length = std::min(why.size(), detail.size() - 1);
    std::memcpy(detail.data(), why.data(), length);
    detail[length] = '\0';
    endedNs.store(nowNs());
    ending.store(how, std::memory_order_release);
  }
};

// The slot of the calling thread; null: nobody looks.
inline Slot*& mySlot() {
  thread_local Slot* slot = nullptr;
  return slot;
}

// Stands around one call into the plugin.
class Watched {
 public:
  explicit Watched(Call call) : slot_(mySlot()), call_(static_cast<size_t>(call)), start_(nowNs()) {
    if (slot_ == nullptr) return;
    slot_->sinceNs.store(start_);
    slot_->call.store(static_cast<int>(call));
  }
  Watched(const Watched&) = delete;
  Watched& operator=(const Watched&) = delete;
  ~Watched() {
    if (slot_ == nullptr) return;
    slot_->call.store(-1);
    slot_->longestNs[call_].store(std::max(slot_->longestNs[call_].load(), nowNs() - start_));
  }

 private:
  Slot* slot_;
  size_t call_;
  int64_t start_;
};

}  // namespace bps::check
