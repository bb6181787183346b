// Listener: waits for the one caller that was given its handle, and gives its socket. Whoever else connects is turned
// away, without taking more than a small fixed amount of memory and time.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "net_plugin/tcp/device.h"
#include "net_plugin/tcp/wire.h"

namespace bps::plugin::tcp {

class Listener {
 public:
  static Result<std::unique_ptr<Listener>> create(const Device& device);

  HandleBytes handle() const { return encodeHandle(handle_); }
  struct Arrival {
    UniqueFd socket;  // empty: the caller has not come yet
    Carrier carrier = Carrier::kStream;
  };
  // Never blocks.
  Result<Arrival> accept();

 private:
  // A caller whose hello is not complete yet.
  struct Caller {
    UniqueFd socket;
    Deadline deadline;
    HelloBytes hello{};
    size_t got = 0;
    Carrier carrier = Carrier::kStream;
  };
  static constexpr size_t kMostCallers = 16;
  static constexpr int kMostReports = 8;

  Listener(UniqueFd socket, const HandleData& handle) : socket_(std::move(socket)), handle_(handle) {}

  Status admitCallers();
  // kDone: this is the one. A failure is why it has to go.
  Result<Progress> hear(Caller& caller) const;
  void turnAway(size_t index, const Status& why);

  UniqueFd socket_;
  HandleData handle_;
  std::vector<Caller> callers_;  // oldest first
  int turnedAway_ = 0;
};

}  // namespace bps::plugin::tcp
