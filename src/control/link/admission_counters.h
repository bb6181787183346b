// AdmissionCounters: how many connections an AuthListener has accepted and refused, and why.
//
// The thread of the AuthListener counts; any thread may read. The counters order no other data, so they are relaxed.
#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <string_view>

namespace bps {

class AdmissionCounters {
 public:
  enum class Refusal : size_t {
    kWrongKey,     // the peer has another key
    kHandshake,    // the peer breaks the protocol or leaves during the handshake
    kTimeout,      // the handshake took too long
    kSurplus,      // too many connections were pending
    kDescriptors,  // the process could not accept the connection
    kBusy,         // the peer has the key, but the listener's owner does not take it
    kReasons
  };
  static constexpr size_t kReasons = static_cast<size_t>(Refusal::kReasons);
  static constexpr std::array<std::string_view, kReasons> kNames{"wrong_key", "handshake",   "timeout",
                                                                 "surplus",   "descriptors", "busy"};

  void countAccepted() { accepted_.fetch_add(1, std::memory_order_relaxed); }
  void countRefused(Refusal why) { refused_[static_cast<size_t>(why)].fetch_add(1, std::memory_order_relaxed); }
  uint64_t accepted() const { return accepted_.load(std::memory_order_relaxed); }
  uint64_t refused(size_t reason) const { return refused_[reason].load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> accepted_{0};
  std::array<std::atomic<uint64_t>, kReasons> refused_{};
};

}  // namespace bps
