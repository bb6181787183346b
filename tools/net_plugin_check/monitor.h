// SideRecord: the current call and the outcome of a side, in memory that the side shares with the
// supervisor. With the record, the supervisor can name a call into the plugin that hangs or
// crashes.
//
// Only the side writes its record. A helper thread of the side has a separate slot. The side stores
// `outcome` last, with release order. A thread that reads `outcome` with acquire order therefore
// sees the detail and the measures.
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

using Clock = std::chrono::steady_clock;  // the same clock in all processes
inline int64_t nowNs() { return std::chrono::nanoseconds(Clock::now().time_since_epoch()).count(); }

struct CallSlot {
  std::atomic<int> call{-1};  // the current call, or -1
  std::atomic<int64_t> sinceNs{0};
  std::array<std::atomic<int64_t>, kCalls> longestNs{};
};

// How a side has ended. kPeerLost means that the side failed only because the other side ended.
enum class SideOutcome : int { kNone, kPassed, kFailed, kSkipped, kPeerLost };

struct Measure {
  std::array<char, 32> name{};
  double value = 0;
};

struct SideRecord {
  CallSlot slot, helper;
  std::atomic<int> pid{0};
  std::atomic<SideOutcome> outcome{SideOutcome::kNone};
  std::atomic<int64_t> endedNs{0};
  std::array<char, 600> detail{};
  std::array<Measure, 8> measures{};

  void finish(SideOutcome how, const std::string& why) {
    const size_t length = std::min(why.size(), detail.size() - 1);
    std::memcpy(detail.data(), why.data(), length);
    detail[length] = '\0';
    endedNs.store(nowNs());
    outcome.store(how, std::memory_order_release);
  }
};

// The slot of the calling thread. If the slot is null, the calls of the thread are not recorded.
inline CallSlot*& threadCallSlot() {
  thread_local CallSlot* slot = nullptr;
  return slot;
}

// The scope of one call into the plugin. A CallTimer records the call and its duration.
class CallTimer {
 public:
  explicit CallTimer(Call call) : slot_(threadCallSlot()), call_(static_cast<size_t>(call)), start_(nowNs()) {
    if (slot_ == nullptr) return;
    slot_->sinceNs.store(start_);
    slot_->call.store(static_cast<int>(call));
  }
  CallTimer(const CallTimer&) = delete;
  CallTimer& operator=(const CallTimer&) = delete;
  ~CallTimer() {
    if (slot_ == nullptr) return;
    slot_->call.store(-1);
    slot_->longestNs[call_].store(std::max(slot_->longestNs[call_].load(), nowNs() - start_));
  }

 private:
  CallSlot* slot_;
  size_t call_;
  int64_t start_;
};

}  // namespace bps::check
