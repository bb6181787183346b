// DelayLine: delays the frames of the links of an emulated cluster.
//
// A link has two TAP devices: one is the NIC of a host, the other is a port of the bridge. Frames from the host wait
// for the delay. Frames to the host pass at once. So each direction of a connection between two hosts is delayed once.
// Headers of virtio-net pass unchanged, so large segments without checksums stay whole. One thread uses a DelayLine.
#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "perf/delay_line/delay_queue.h"
#include "src/base/io/fd.h"
#include "src/base/status.h"

namespace bps::perf {

struct Link {
  UniqueFd host, port;  // TAP devices, non-blocking
};

class DelayLine {
 public:
  // The queue holds at most this many bytes for each link on average.
  static constexpr size_t kBytesPerLink = size_t{64} << 20;

  static Result<std::unique_ptr<DelayLine>> create(std::chrono::nanoseconds delay, std::vector<Link> links);

  // Forwards frames until standard input ends. For each line on standard input it writes a line with the number of
  // frames that were dropped so far.
  Status run();

 private:
  using Clock = std::chrono::steady_clock;

  DelayLine(std::chrono::nanoseconds delay, std::vector<Link> links);
  Status open();
  Status watch(int fd, uint64_t what);
  Status handle(uint64_t what);
  Status readHost(size_t link);
  Status readPort(size_t link);
  Status readCommands();
  void write(int fd, std::span<const uint8_t> frame);
  void sendDueFrames();
  Status setTimer();

  const std::chrono::nanoseconds delay_;
  const std::vector<Link> links_;
  DelayQueue waiting_;
  std::vector<uint8_t> scratch_;
  UniqueFd epoll_, timer_;
  Clock::time_point timerAt_;  // when the timer rings; time_point::max(): it is not set
  uint64_t drops_ = 0;
  bool ended_ = false;
};

}  // namespace bps::perf
