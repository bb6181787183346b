#include "src/metrics/metrics_server.h"

#include <sys/socket.h>

#include <array>
#include <cerrno>

#include "src/base/guard.h"
#include "src/base/log.h"
#include "src/base/process/thread_name.h"

namespace bps {
namespace {

// Time limit for a client to send its request and to receive the reply.
constexpr std::chrono::milliseconds kClientTimeout(1000);
// The pause before the next accept if file descriptors are short.
constexpr std::chrono::milliseconds kAcceptRetryPause(200);
constexpr size_t kMaxClients = 16;

bool wouldBlock() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

}  // namespace

Result<std::unique_ptr<MetricsServer>> MetricsServer::serve(const Address& where, HttpPages pages) {
  UniqueFd listener = BPS_TRY(listenOn(where, 16));
  const Address bound = BPS_TRY(localAddress(listener.get()));
  std::unique_ptr<MetricsServer> metrics(
      new MetricsServer(std::move(listener), bound, BPS_TRY(Doorbell::create()), std::move(pages)));
  MetricsServer* self = metrics.get();
  const auto run = [self] {
    const Status ended = guarded([self] { return self->run(); });
    if (!ended.ok()) logWarn(Subsystem::kServer, "metrics server ended: {}", ended.message());
  };
  BPS_TRY(guarded([&] { metrics->thread_ = std::thread(run); }));
  return metrics;
}

MetricsServer::~MetricsServer() {
  stop_.store(true);
  bell_.ring();
  if (thread_.joinable()) thread_.join();
}

void MetricsServer::watch(PollSet& set) const {
  set.add(bell_.fd());
  if (pause_.passed()) set.add(listener_.get());
  else set.wakeAt(pause_.at());
  for (const Client& client : clients_) {
    if (client.answer.empty()) set.add(client.fd.get());
    else set.addWriter(client.fd.get());
    set.wakeAt(client.deadline.at());
  }
}

Status MetricsServer::run() {
  logThreadName("metrics");
  nameThread("bps-metrics");
  PollSet set;
  while (!stop_.load()) {
    set.clear();
    watch(set);
    BPS_TRY(set.wait());
    clients_.remove_if(
        [&](Client& client) { return client.deadline.passed() || (set.ready(client.fd.get()) && !step(client)); });
    if (set.ready(listener_.get())) accept();
  }
  return {};
}

void MetricsServer::accept() {
  Result<std::optional<UniqueFd>> accepted = acceptFrom(listener_.get());
  if (!accepted.ok()) {
    pause_ = Deadline::in(kAcceptRetryPause);
    return;
  }
  std::optional<UniqueFd> fd = std::move(accepted).value();
  if (!fd) return;
  if (clients_.size() == kMaxClients) clients_.pop_front();
  clients_.push_back({std::move(*fd), Deadline::in(kClientTimeout)});
}

bool MetricsServer::step(Client& client) const {
  if (client.answer.empty()) {
    std::array<char, 2048> bytes{};
    const ssize_t got = ::recv(client.fd.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (got < 0) return wouldBlock();
    if (got == 0) return false;
    if (client.request.take({bytes.data(), static_cast<size_t>(got)})) client.answer = client.request.answer(pages_);
    return true;
  }
  const ssize_t sent = ::send(client.fd.get(), client.answer.data() + client.sent, client.answer.size() - client.sent,
                              MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent < 0) return wouldBlock();
  client.sent += static_cast<size_t>(sent);
  return client.sent < client.answer.size();
}

}  // namespace bps
