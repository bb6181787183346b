// Relay: a thread of this process that forwards the control connections of neighbours. On a BCube most machines cannot
// reach the machine of rank 0, so their control connections lead through the machines between.
//
// One process of every machine has a Relay. It listens on the addresses of the machine in the fabric, at the port
// relay= of BPS_FABRIC. A neighbour asks for a connection to a target (relay_messages.h). If this process has reached
// the target itself, the Relay connects with it in the same way, directly or through a further relay, and forwards
// bytes. It neither reads nor changes them. Connections have limits in number, in time and in buffered bytes.
//
// Any thread may call any function.
#pragma once
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "src/base/deadline.h"
#include "src/base/io/fd.h"
#include "src/control/relay/relay_connection.h"

namespace bps {

class Relay {
 public:
  // Takes listening sockets. `timeout` is BPS_TIMEOUT.
  static Result<std::unique_ptr<Relay>> create(std::vector<UniqueFd> listeners, std::chrono::milliseconds timeout);
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;
  ~Relay();  // calls drain() if nobody has, and joins the thread

  RelayTargets& targets() { return targets_; }
  // Closes the listening sockets. The thread ends when no connection is left, and at the latest after `limit`.
  void drain(std::chrono::milliseconds limit);
  void drain() { drain(timeout_); }
  bool ended() const { return ended_; }
  size_t connections() const { return count_; }

 private:
  Relay(std::vector<UniqueFd> listeners, Doorbell bell, std::chrono::milliseconds timeout);
  void main();
  Status loop();
  void closeListeners();
  void watch(PollSet& set) const;
  void accept(const PollSet& set);
  void add(UniqueFd client);

  const std::chrono::milliseconds timeout_;
  const Doorbell bell_;
  RelayTargets targets_;
  std::vector<UniqueFd> listeners_;  // the thread uses these two and the pause
  std::vector<std::unique_ptr<RelayConnection>> connections_;
  Deadline pause_ = Deadline::in({});  // no connection is accepted before this time
  std::atomic<int64_t> drainMs_{-1};   // at least 0 if the relay drains
  std::atomic<bool> closed_{false}, ended_{false};
  std::atomic<size_t> count_{0};
  std::thread thread_;  // declared last, because the thread uses all other fields
};

}  // namespace bps
