#include "tools/bps_doctor/network/echo_probe.h"

#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <list>

#include "src/base/deadline.h"
#include "src/base/io/host_lookup.h"
#include "src/base/io/socket.h"
#include "src/control/link/poll_set.h"

namespace bps::doctor {
namespace {

using Clock = Deadline::Clock;

constexpr size_t kAtOnce = 64;
constexpr size_t kSmallBytes = 64, kSmallMessages = 8;
// Many full-size segments, also with jumbo frames, and less than the buffers of a socket hold.
constexpr size_t kLargeBytes = 128U << 10;

// One connection to an echo service: connect, then small messages, then a large one.
class EchoProbe {
 public:
  EchoProbe(int rank, const EchoTarget& target) {
    result_.from = rank, result_.to = target.rank;
    result_.nic = target.nic;
    message_.assign(target.token.begin(), target.token.end());
    const Status started = start(target);
    if (!started.ok()) end(Way::kUnreachable, started.message());
  }

  bool ended() const { return ended_; }
  const WayResult& result() const { return result_; }
  void watch(PollSet& set) const {
    if (stage_ == Stage::kConnecting) set.addWriter(fd_.get());
    else set.add(fd_.get(), sent_ < message_.size());
    set.wakeAt(deadline_.at());
  }
  void step(const PollSet& set) {
    if (ended_) return;
    if (set.ready(fd_.get())) {
      if (stage_ == Stage::kConnecting) connected();
      else exchange();
    }
    if (!ended_ && deadline_.passed()) late();
  }

 private:
  enum class Stage { kConnecting, kSmall, kLarge };

  Status start(const EchoTarget& target) {
    const std::vector<Address> addresses =
        BPS_TRY(resolve({target.address, static_cast<uint16_t>(target.port)}, Deadline::in(kAnswerTime)));
    address_ = addresses.front();
    result_.address = address_.text();
    fd_ = BPS_TRY(startConnect(address_));
    return {};
  }
  void end(Way way, std::string error) {
    result_.way = way;
    result_.error = std::move(error);
    ended_ = true;
  }
  void connected() {
    int error = 0;
    socklen_t length = sizeof error;
    if (::getsockopt(fd_.get(), SOL_SOCKET, SO_ERROR, &error, &length) != 0) error = errno;
    if (error != 0) {
      const Way way = error == ECONNREFUSED ? Way::kRefused : error == ETIMEDOUT ? Way::kSilent : Way::kUnreachable;
      return end(way, std::generic_category().message(error));
    }
    begin(Stage::kSmall, kSmallBytes);
  }
  // The token precedes the first message and is not sent back.
  void begin(Stage stage, size_t bytes) {
    stage_ = stage;
    deadline_ = Deadline::in(kAnswerTime);
    began_ = Clock::now();
    message_.resize(message_.size() + bytes, 0x5a);
    sent_ = 0;
    expected_ = bytes;
  }
  void exchange() {
    while (sent_ < message_.size()) {
      const ssize_t count = ::send(fd_.get(), message_.data() + sent_, message_.size() - sent_, MSG_NOSIGNAL);
      if (count < 0 && errno != EAGAIN && errno != EINTR) return lost(std::generic_category().message(errno));
      if (count < 0) break;
      sent_ += static_cast<size_t>(count);
    }
    std::array<char, 16384> bytes;
    while (expected_ > 0) {
      const ssize_t count = ::recv(fd_.get(), bytes.data(), std::min(bytes.size(), expected_), 0);
      if (count == 0) return lost("the connection was closed");
      if (count < 0 && errno != EAGAIN && errno != EINTR) return lost(std::generic_category().message(errno));
      if (count < 0) return;
      expected_ -= static_cast<size_t>(count);
    }
    message_.clear();
    if (stage_ == Stage::kLarge) return end(Way::kGood, "");
    const double seconds = std::chrono::duration<double>(Clock::now() - began_).count();
    result_.roundTrip = messages_ == 0 ? seconds : std::min(result_.roundTrip, seconds);
    if (++messages_ < kSmallMessages) begin(Stage::kSmall, kSmallBytes);
    else begin(Stage::kLarge, kLargeBytes);
  }
  void lost(const std::string& error) { end(stage_ == Stage::kLarge ? Way::kNoLarge : Way::kNoEcho, error); }
  void late() {
    if (stage_ == Stage::kConnecting) return end(Way::kSilent, "no answer");
    int unacknowledged = 0;
    result_.outStuck = ::ioctl(fd_.get(), SIOCOUTQ, &unacknowledged) == 0 && unacknowledged > 0;
    lost("no answer");
  }

  Address address_;
  UniqueFd fd_;
  Stage stage_ = Stage::kConnecting;
  Deadline deadline_ = Deadline::in(kAnswerTime);
  Clock::time_point began_;
  std::vector<uint8_t> message_;
  size_t sent_ = 0, expected_ = 0, messages_ = 0;
  WayResult result_;
  bool ended_ = false;
};

}  // namespace

// Each stage takes at most kAnswerTime, and so does the last of the small messages.
std::chrono::seconds probeTime(size_t targets) { return 4 * kAnswerTime * static_cast<int>(1 + targets / kAtOnce); }

Result<std::vector<WayResult>> probeWays(int rank, const std::vector<EchoTarget>& targets) {
  std::vector<WayResult> results;
  std::list<EchoProbe> running;
  size_t next = 0;
  PollSet set;
  while (results.size() < targets.size()) {
    while (running.size() < kAtOnce && next < targets.size()) running.emplace_back(rank, targets[next++]);
    set.clear();
    bool waits = !running.empty();
    for (const EchoProbe& each : running) {
      waits = waits && !each.ended();
      if (!each.ended()) each.watch(set);
    }
    if (waits) BPS_TRY(set.wait());
    for (EchoProbe& each : running)
      if (waits) each.step(set);
    running.remove_if([&](const EchoProbe& each) {
      if (each.ended()) results.push_back(each.result());
      return each.ended();
    });
  }
  return results;
}

}  // namespace bps::doctor
