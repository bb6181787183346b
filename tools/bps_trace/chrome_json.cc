#include <nlohmann/json.hpp>

#include "src/base/format.h"
#include "tools/bps_trace/timeline.h"

namespace bps::trace {
namespace {

std::string quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

const char* categoryOf(Slice::Kind kind) {
  static constexpr const char* kNames[] = {"call", "push", "wait", "sum", "answer", "copy", "exchange"};
  return kNames[static_cast<size_t>(kind)];
}

// Times are microseconds.
std::string timeOf(uint64_t nanoseconds) { return fmt::format("{}.{:03}", nanoseconds / 1000, nanoseconds % 1000); }

class Writer {
 public:
  std::string write(const Timeline& timeline) {
    out_ = "{\"displayTimeUnit\": \"ns\", \"traceEvents\": [";
    for (size_t p = 0; p < timeline.processes.size(); ++p) process(p, timeline.processes[p]);
    size_t id = 0;
    for (const Arrow& arrow : timeline.arrows) {
      flow("s", ++id, arrow.from);
      flow("f", id, arrow.to);
    }
    return std::move(out_) + "\n]}\n";
  }

 private:
  void event(const std::string& fields) {
    out_ += first_ ? "\n{" : ",\n{";
    first_ = false;
    out_ += fields + "}";
  }
  void named(const char* what, size_t process, size_t thread, const std::string& name) {
    event(fmt::format(R"("ph": "M", "name": "{}", "pid": {}, "tid": {}, "args": {{"name": {}}})", what, process, thread,
                      quoted(name)));
  }

  void process(size_t number, const TimelineProcess& process) {
    named("process_name", number, 0, process.name);
    event(fmt::format(R"("ph": "M", "name": "process_sort_index", "pid": {0}, "tid": 0, "args": {{"sort_index": {0}}})",
                      number));
    for (size_t t = 0; t < process.tracks.size(); ++t) {
      named("thread_name", number, t + 1, process.tracks[t].name);
      event(fmt::format(R"("ph": "M", "name": "thread_sort_index", "pid": {}, "tid": {}, "args": {{"sort_index": {}}})",
                        number, t + 1, t));
      for (const Slice& slice : process.tracks[t].slices)
        event(fmt::format(
            R"("ph": "X", "name": {}, "cat": "{}", "pid": {}, "tid": {}, "ts": {}, "dur": {}, "args": {{"call": {}, "bytes": {}}})",
            quoted(slice.name), categoryOf(slice.kind), number, t + 1, timeOf(slice.from),
            timeOf(slice.until - slice.from), slice.call, slice.bytes));
    }
    for (const auto& [time, chunks] : process.inFlight)
      event(fmt::format(R"("ph": "C", "name": "chunks in flight", "pid": {}, "ts": {}, "args": {{"chunks": {}}})",
                        number, timeOf(time), chunks));
  }

  void flow(const char* phase, size_t id, const ArrowEnd& end) {
    event(fmt::format(
        R"("ph": "{}", "bp": "e", "name": "chunk", "cat": "chunk", "id": {}, "pid": {}, "tid": {}, "ts": {})", phase,
        id, end.process, end.track + 1, timeOf(end.time)));
  }

  std::string out_;
  bool first_ = true;
};

}  // namespace

std::string chromeJson(const Timeline& timeline) { return Writer().write(timeline); }

}  // namespace bps::trace
