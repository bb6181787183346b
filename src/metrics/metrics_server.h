// MetricsServer: answers HTTP requests for counters in Prometheus' text format, and for the probes /healthz and
// /readyz. One thread serves a limited number of clients. If a new client exceeds the limit, the server disconnects the
// oldest client.
#pragma once
#include <atomic>
#include <list>
#include <memory>
#include <string>
#include <thread>

#include "src/base/deadline.h"
#include "src/base/io/fd.h"
#include "src/base/io/socket.h"
#include "src/base/status.h"
#include "src/control/link/poll_set.h"
#include "src/metrics/http_request.h"

namespace bps {

class MetricsServer {
 public:
  // Starts the server. Calls the functions of `pages` on the metrics thread.
  static Result<std::unique_ptr<MetricsServer>> serve(const Address& where, HttpPages pages);
  ~MetricsServer();

  // Returns the listening address. The address has the actual port, even if the system chose the
  // port.
  const Address& address() const { return address_; }

 private:
  struct Client {
    UniqueFd fd;
    Deadline deadline;
    HttpRequest request{};
    std::string answer{};  // empty until the request is complete
    size_t sent = 0;
  };

  MetricsServer(UniqueFd listener, Address address, Doorbell bell, HttpPages pages)
      : listener_(std::move(listener)), address_(address), bell_(std::move(bell)), pages_(std::move(pages)) {}
  Status run();
  void watch(PollSet& set) const;
  void accept();
  bool step(Client& client) const;  // returns false if the client is done

  UniqueFd listener_;
  Address address_;
  Doorbell bell_;
  HttpPages pages_;
  std::list<Client> clients_;          // the oldest client comes first
  Deadline pause_ = Deadline::in({});  // until this time, the server accepts no client
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace bps
