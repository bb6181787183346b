#include "tools/bps_server/metrics.h"

#include <poll.h>
#include <sys/socket.h>

#include <array>

#include "src/base/format.h"
#include "src/base/guard.h"
#include "src/base/socket.h"

namespace bps {
namespace {

constexpr int kPatienceMs = 1000;  // for a client to send its request, and to take the answer

bool ready(int fd, short events) {
  pollfd poll{fd, events, 0};
  return ::poll(&poll, 1, kPatienceMs) > 0;
}

}  // namespace

Result<std::unique_ptr<Metrics>> Metrics::serve(const Address& where, std::function<std::string()> text) {
  UniqueFd listener = BPS_TRY(listenOn(where, 16));
  const Address bound = BPS_TRY(localAddress(listener.get()));
  std::unique_ptr<Metrics> metrics(
      new Metrics(std::move(listener), bound, BPS_TRY(Doorbell::create()), std::move(text)));
  Metrics* self = metrics.get();
  metrics->thread_ = std::thread([self] { [[maybe_unused]] const Status ended = guarded([self] { self->run(); }); });
  return metrics;
}

Metrics::~Metrics() {
  stop_.store(true);
  bell_.ring();
  thread_.join();
}

void Metrics::run() {
  std::array<pollfd, 2> polls{{{listener_.get(), POLLIN, 0}, {bell_.fd(), POLLIN, 0}}};
  while (!stop_.load()) {
    ::poll(polls.data(), polls.size(), -1);  // ends with the bell
    Result<std::optional<UniqueFd>> accepted = acceptFrom(listener_.get());
    if (!accepted.ok()) continue;
    const std::optional<UniqueFd> client = std::move(accepted).value();
    if (client) answerOne(client->get());
  }
}

void Metrics::answerOne(int fd) const {
  std::array<char, 2048> request{};
  if (!ready(fd, POLLIN)) return;
  const ssize_t got = ::recv(fd, request.data(), request.size(), 0);
  if (got <= 0) return;
  const bool get = std::string_view(request.data(), static_cast<size_t>(got)).substr(0, 4) == "GET ";
  const std::string body = get ? text_() : "";
  const std::string answer =
      fmt::format("HTTP/1.0 {}\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {}\r\n\r\n{}",
                  get ? "200 OK" : "405 Method Not Allowed", body.size(), body);
  for (size_t sent = 0; sent < answer.size() && ready(fd, POLLOUT);) {
    const ssize_t wrote = ::send(fd, answer.data() + sent, answer.size() - sent, MSG_NOSIGNAL);
    if (wrote <= 0) return;
    sent += static_cast<size_t>(wrote);
  }
}

}  // namespace bps
