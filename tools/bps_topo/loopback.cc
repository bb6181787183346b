#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <vector>

#include "src/base/io/fd.h"
#include "src/base/io/host_lookup.h"
#include "src/base/io/socket.h"
#include "tools/bps_topo/probe.h"

namespace bps {
namespace {

constexpr size_t kLoopbackBytes = size_t{64} << 20, kWriteBytes = 256 << 10;
constexpr size_t kLoopbackRounds = 5;
constexpr int kWaitMs = 5000;

bool waitFor(int fd, short events) {
  pollfd wait{fd, events, 0};
  return ::poll(&wait, 1, kWaitMs) == 1;
}

// Moves kLoopbackBytes, at most kWriteBytes in one step. Returns false if the peer has closed the
// connection or is too slow.
template <class Move>
bool moveAll(int fd, short events, const Move& move) {
  std::vector<char> piece(kWriteBytes);
  for (size_t done = 0; done < kLoopbackBytes;) {
    const ssize_t got = move(fd, piece.data(), std::min(kWriteBytes, kLoopbackBytes - done));
    if (got > 0) done += static_cast<size_t>(got);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) return false;
    if (got < 0 && !waitFor(fd, events)) return false;
  }
  return true;
}

struct SocketPair {
  UniqueFd sender, receiver;
};

Result<SocketPair> connectSocketPair() {
  const auto any = BPS_TRY(resolve({"127.0.0.1", 0}, Deadline::in(std::chrono::seconds(1))));
  const UniqueFd listener = BPS_TRY(listenOn(any.front()));
  const Address address = BPS_TRY(localAddress(listener.get()));
  UniqueFd sender = BPS_TRY(startConnect(address));
  if (!waitFor(listener.get(), POLLIN)) return Status(Code::kTimeout, "no connection");
  auto receiver = BPS_TRY(acceptFrom(listener.get()));
  if (!receiver || !waitFor(sender.get(), POLLOUT)) return Status(Code::kTimeout, "no connection");
  return SocketPair{std::move(sender), std::move(*receiver)};
}

}  // namespace

ProbeResult probeLoopback() {
  ProbeResult measure{"TCP over loopback", 0, 0, "one connection, both ends on this machine"};
  auto made = connectSocketPair();
  if (!made.ok()) return {measure.what, 0, 0, made.error().message()};
  const SocketPair pair = std::move(made).value();
  std::vector<double> rates;
  for (size_t round = 0; round < kLoopbackRounds; ++round) {
    const auto start = std::chrono::steady_clock::now();
    bool sent = false;
    std::thread sender([&] {
      sent = moveAll(pair.sender.get(), POLLOUT,
                     [](int fd, const void* data, size_t size) { return ::send(fd, data, size, MSG_NOSIGNAL); });
    });
    const bool received =
        moveAll(pair.receiver.get(), POLLIN, [](int fd, void* data, size_t size) { return ::recv(fd, data, size, 0); });
    sender.join();
    if (!sent || !received) return {measure.what, 0, 0, "the connection failed"};
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    rates.push_back(static_cast<double>(kLoopbackBytes) / took.count());
  }
  std::sort(rates.begin(), rates.end());
  measure.bytesPerSecond = rates[rates.size() / 2];
  measure.spread = (rates.back() - rates.front()) / measure.bytesPerSecond;
  return measure;
}

}  // namespace bps
