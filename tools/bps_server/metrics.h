// Metrics: answers HTTP GETs with counters in Prometheus' text format. One thread, one short request at a time.
#pragma once
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "src/base/fd.h"
#include "src/base/socket.h"
#include "src/base/status.h"

namespace bps {

class Metrics {
 public:
  // `text` is asked on the metrics thread for every request.
  static Result<std::unique_ptr<Metrics>> serve(const Address& where, std::function<std::string()> text);
  ~Metrics();

  // Where it listens: with the port that the system chose, if that was left to it.
  const Address& address() const { return address_; }

 private:
  Metrics(UniqueFd listener, Address address, Doorbell bell, std::function<std::string()> text)
      : listener_(std::move(listener)), address_(address), bell_(std::move(bell)), text_(std::move(text)) {}
  void run();
  void answerOne(int fd) const;

  UniqueFd listener_;
  Address address_;
  Doorbell bell_;
  std::function<std::string()> text_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace bps
