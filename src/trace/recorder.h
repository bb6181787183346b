// Recorder: keeps the last events of one communicator on this rank, or of one job on a server (BPS_TRACE), and writes
// them to a file at the end.
//
// The memory is bounded: a full Recorder overwrites the oldest event. Untouched memory costs nothing. One thread at a
// time uses a Recorder: the holder of the progress lock, or the thread of the job.
#pragma once
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "src/base/clock_offset.h"
#include "src/base/io/fd.h"
#include "src/base/memory.h"
#include "src/base/status.h"
#include "src/trace/event.h"
#include "src/trace/file.h"
#include "src/wire/data_header.h"
#include "src/wire/roster.h"

namespace bps::trace {

inline uint64_t now() {
  const auto time = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<uint64_t>(std::chrono::nanoseconds(time).count());
}

// What identifies a call, see CallInfo.
struct CallId {
  uint64_t number = 0;
  uint32_t history = 0;

  CallId() = default;
  CallId(const CallInfo& call) : number(call.number), history(call.history) {}  // NOLINT(google-explicit-constructor)
  bool operator==(const CallId&) const = default;
};

// Describes the communicator. The caller sets the first members of the header, up to `pid`.
Header headerOf(const Roster& roster, const std::vector<uint64_t>& weights);

class Recorder {
 public:
  static constexpr size_t kDefaultEvents = size_t{1} << 17;
  // Opens the file, so that a path that cannot be written is an error at the start. expandPath() made the path.
  static Result<std::unique_ptr<Recorder>> create(std::string path, Header header,
                                                  std::shared_ptr<const ClockOffset> clock,
                                                  size_t capacity = kDefaultEvents);

  struct Place {
    uint16_t peer = kNoPeer;
    uint32_t round = 0;
    uint64_t bytes = 0;
    uint8_t rail = 0;
  };
  void add(Stage stage, const CallId& call, const Place& place) { addAt(now(), stage, call, place); }
  void addAt(uint64_t time, Stage stage, const CallId& call, const Place& place) {
    Event& event = reinterpret_cast<Event*>(memory_.data())[count_++ % capacity_];
    event = {time, call.number, place.bytes, call.history, place.round, place.peer, stage, place.rail};
  }
  // Replaces the content of the file by the events until now.
  Status write();
  const std::string& path() const { return path_; }

 private:
  Recorder() = default;

  PageBuffer memory_;
  size_t capacity_ = 0;
  uint64_t count_ = 0;  // of all events
  Header header_;
  std::shared_ptr<const ClockOffset> clock_;  // null: this process has the reference clock
  std::string path_;
  UniqueFd fd_;
};

// The name of a server in the names of its files: "server-" and its address, with "-" for unusual characters.
std::string fileNameOf(const std::string& server);
// Fails if several processes would write the same file.
Status checkPattern(const std::string& pattern);
// Replaces %r by `name`, %h by the host name and %p by the process id. If this process has used the path before, adds
// ".2", ".3" and so on.
std::string expandPath(const std::string& pattern, const std::string& name);

}  // namespace bps::trace
