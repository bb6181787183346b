// Recorder: keeps the last events of one communicator on this rank, or of one job on a server (BPS_TRACE), and writes
// them to a file.
//
// The memory is bounded: a full Recorder overwrites its oldest events and counts them. The system provides memory only
// as events fill it. The file is written by write(), and also when the process exits while the Recorder exists. Any
// thread may use a Recorder. In practice one thread at a time adds events: the holder of the progress lock, or the
// thread of the job. So its lock is free, and costs less than the reading of the clock.
#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "src/base/io/fd.h"
#include "src/base/memory.h"
#include "src/base/status.h"
#include "src/trace/event.h"
#include "src/trace/file.h"
#include "src/wire/clock_offset.h"
#include "src/wire/roster.h"

namespace bps::trace {

inline uint64_t nanoseconds(std::chrono::steady_clock::time_point time) {
  return static_cast<uint64_t>(std::chrono::nanoseconds(time.time_since_epoch()).count());
}

inline uint64_t now() { return nanoseconds(std::chrono::steady_clock::now()); }

// Describes the communicator. The caller sets the first members of the header, up to `pid`.
Header headerOf(const Roster& roster);

class Recorder {
 public:
  static constexpr size_t kEvents = size_t{1} << 17;  // 4 MiB
  // Opens the file. expandPath() made the path.
  static Result<std::unique_ptr<Recorder>> create(std::string path, Header header,
                                                  std::shared_ptr<const ClockOffset> clock, size_t capacity = kEvents);
  ~Recorder();

  // The Recorder ignores all events before begin(): those of the calls that measure the network.
  void begin() { begun_.store(true, std::memory_order_relaxed); }
  void add(const Event& event) {
    if (!begun_.load(std::memory_order_relaxed)) return;
    while (locked_.exchange(true, std::memory_order_acquire)) yield();
    reinterpret_cast<Event*>(memory_.data())[count_++ & (capacity_ - 1)] = event;
    locked_.store(false, std::memory_order_release);
  }
  // Replaces the content of the file by the events until now.
  Status write();
  // As write(). A failure is only a warning, which names the file.
  void writeOrWarn();
  const std::string& path() const { return path_; }

 private:
  Recorder() = default;
  static void yield();
  File snapshot();

  PageBuffer memory_;
  size_t capacity_ = 0;  // a power of two
  std::atomic<bool> begun_{false};
  std::atomic<bool> locked_{false};  // protects memory_ and count_
  uint64_t count_ = 0;               // of all events
  Header header_;
  std::shared_ptr<const ClockOffset> clock_;  // null: this process has the reference clock
  std::string path_;
  UniqueFd fd_;
  Mutex writing_;
};

// Where the chunks of one lane, service or exchange path are recorded. Empty if nothing is recorded.
struct ChunkRecorder {
  Recorder* recorder = nullptr;
  uint16_t peer = kNoPeer;
  uint8_t rail = 0;

  explicit operator bool() const { return recorder != nullptr; }
  ChunkRecorder at(size_t endpoint) const { return {recorder, static_cast<uint16_t>(endpoint), rail}; }
  void add(Stage stage, uint64_t call, uint64_t sequence, size_t bytes) const {
    recorder->add({now(), call, bytes, static_cast<uint32_t>(sequence), peer, stage, rail});
  }
};

// The name of a server in the names of its files: "server-" and its address, with "-" for unusual characters.
std::string fileNameOf(const std::string& server);
// Fails if several processes would write the same file.
Status checkPattern(const std::string& pattern);
// Replaces %r by `name`, %h by the host name and %p by the process id. If this process has used the path before, adds
// ".2", ".3" and so on.
std::string expandPath(const std::string& pattern, const std::string& name);

}  // namespace bps::trace
