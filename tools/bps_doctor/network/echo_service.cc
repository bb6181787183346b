#include "tools/bps_doctor/network/echo_service.h"

#include <sys/socket.h>

#include <algorithm>
#include <list>

#include "src/base/deadline.h"
#include "src/base/format.h"
#include "src/base/guard.h"
#include "src/base/io/host_lookup.h"
#include "src/base/io/socket.h"
#include "src/control/link/poll_set.h"

namespace bps::doctor {
namespace {

constexpr size_t kMostConnections = 1024;
constexpr std::chrono::seconds kLongest(15);  // of one connection
constexpr size_t kBufferBytes = 16U << 10;

class EchoConnection {
 public:
  explicit EchoConnection(UniqueFd fd) : fd_(std::move(fd)) {}

  void watch(PollSet& set) const {
    if (end_ > begin_) set.addWriter(fd_.get());
    else set.add(fd_.get());
    set.wakeAt(deadline_.at());
  }
  // Returns false if the connection has ended.
  bool step(const PollSet& set, const Token& token) {
    if (deadline_.passed()) return false;
    if (!set.ready(fd_.get())) return true;
    if (end_ > begin_) return write();
    const ssize_t got = ::recv(fd_.get(), buffer_.data(), buffer_.size(), 0);
    if (got < 0) return errno == EAGAIN || errno == EINTR;
    if (got == 0) return false;
    begin_ = 0, end_ = static_cast<size_t>(got);
    while (begin_ < end_ && proved_ < token.size())
      if (buffer_[begin_++] != token[proved_++]) return false;
    return begin_ == end_ || write();
  }

 private:
  bool write() {
    const ssize_t sent = ::send(fd_.get(), buffer_.data() + begin_, end_ - begin_, MSG_NOSIGNAL);
    if (sent < 0) return errno == EAGAIN || errno == EINTR;
    begin_ += static_cast<size_t>(sent);
    return true;
  }

  UniqueFd fd_;
  Deadline deadline_ = Deadline::in(kLongest);
  size_t proved_ = 0, begin_ = 0, end_ = 0;
  std::array<uint8_t, kBufferBytes> buffer_;
};

Result<UniqueFd> listenAt(NicFacts& nic, const Env& env) {
  const std::vector<Address> addresses = BPS_TRY(resolve({nic.address, 0}, Deadline::in(std::chrono::seconds(2))));
  UniqueFd fd = BPS_TRY(listenOn(addresses.front(), env.portRange));
  nic.port = BPS_TRY(localAddress(fd.get())).port();
  return fd;
}

}  // namespace

EchoService::EchoService(std::vector<UniqueFd> listeners, Doorbell bell, const Token& token)
    : listeners_(std::move(listeners)), bell_(std::move(bell)), token_(token), thread_([this] { run(); }) {}

EchoService::~EchoService() {
  ended_.store(true, std::memory_order_release);
  bell_.ring();
  thread_.join();
}

Result<std::unique_ptr<EchoService>> EchoService::start(Facts& facts, const Env& env, const Token& token) {
  std::vector<UniqueFd> listeners;
  for (NicFacts& nic : facts.nics) {
    if (nic.isLinkLocal()) continue;
    Result<UniqueFd> fd = listenAt(nic, env);
    if (fd.ok()) listeners.push_back(std::move(fd).value());
    else if (nic.chosen) facts.listenErrors.push_back(fmt::format("{}: {}", nic.name, fd.error().message()));
  }
  return std::unique_ptr<EchoService>(new EchoService(std::move(listeners), BPS_TRY(Doorbell::create()), token));
}

void EchoService::run() const {
  (void)guarded([this]() -> Status {
    std::list<EchoConnection> connections;
    PollSet set;
    while (!ended_.load(std::memory_order_acquire)) {
      set.clear();
      set.add(bell_.fd());
      const bool room = connections.size() < kMostConnections;
      for (const UniqueFd& listener : listeners_)
        if (room) set.add(listener.get());
      for (const EchoConnection& each : connections) each.watch(set);
      BPS_TRY(set.wait());
      connections.remove_if([&](EchoConnection& each) { return !each.step(set, token_); });
      for (const UniqueFd& listener : listeners_) {
        if (!room || !set.ready(listener.get())) continue;
        Result<std::optional<UniqueFd>> fd = acceptFrom(listener.get());
        if (!fd.ok()) continue;
        if (std::optional<UniqueFd> taken = std::move(fd).value()) connections.emplace_back(std::move(*taken));
      }
    }
    return {};
  });
}

}  // namespace bps::doctor
