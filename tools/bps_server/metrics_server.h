// MetricsServer: answers HTTP GET requests with counters in Prometheus' text format. One thread serves a bounded number
// of clients; if all places are taken, it disconnects the oldest client.
#pragma once
#include <atomic>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <thread>

#include "src/base/deadline.h"
#include "src/base/io/fd.h"
#include "src/base/io/socket.h"
#include "src/base/status.h"
#include "src/control/link/poll_set.h"
#include "tools/bps_server/http_request.h"

namespace bps {

class MetricsServer {
 public:
  // Calls `text` on the metrics thread for every request.
  static Result<std::unique_ptr<MetricsServer>> serve(const Address& where, std::function<std::string()> text);
  ~MetricsServer();

  // The listening address, with the actual port if the system chose it.
  const Address& address() const { return address_; }

 private:
  struct Client {
    UniqueFd fd;
    Deadline deadline;
    HttpRequest request{};
    std::string answer{};  // empty until the request is complete
    size_t sent = 0;
  };

  MetricsServer(UniqueFd listener, Address address, Doorbell bell, std::function<std::string()> text)
      : listener_(std::move(listener)), address_(address), bell_(std::move(bell)), text_(std::move(text)) {}
  Status run();
  void watch(PollSet& set) const;
  void accept();
  bool step(Client& client) const;  // false: the client is done

  UniqueFd listener_;
  Address address_;
  Doorbell bell_;
  std::function<std::string()> text_;
  std::list<Client> clients_;          // oldest first
  Deadline pause_ = Deadline::in({});  // no accept before; file descriptors are short
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace bps
