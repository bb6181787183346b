// Channel: the progress thread of one communicator on this rank.
//
// Edges to other threads: calls come through CallInbox, completions leave through StreamEntry, FirstError is raised by
// any thread and polled once per loop; each header states its memory ordering.
#pragma once
#include <atomic>
#include <future>
#include <memory>
#include <string>
#include <thread>

#include "src/base/env.h"
#include "src/comm/call_engine.h"
#include "src/comm/call_inbox.h"
#include "src/comm/first_error.h"
#include "src/net/waiter.h"

namespace bps {

struct ChannelParts {
  Env env;
  ControlPlane* control = nullptr;  // these three outlive the channel
  FirstError* failure = nullptr;
  LocalGroup* local = nullptr;  // null: this rank is alone on its machine
  JobPlan plan;
  std::shared_ptr<Doorbell> bell;
  Deadline deadline = Deadline::never();  // of connecting
};

class Channel {
 public:
  // Starts the thread, which connects the data plane; returns when that is done or has failed.
  static Result<std::unique_ptr<Channel>> start(ChannelParts parts);
  // Stops the thread: calls still in flight fail, and their buffers are not touched afterwards.
  ~Channel();

  bool submit(std::unique_ptr<Collective>& call) { return inbox_.push(call); }
  // Once true (and nothing is submitted), all calls are complete and every answer of the service is on its way.
  bool drained() const { return drained_.load() == inbox_.pushed(); }
  const std::shared_ptr<Doorbell>& bell() const { return parts_.bell; }
  const std::string& transport() const { return transport_; }

 private:
  explicit Channel(ChannelParts parts) : parts_(std::move(parts)), inbox_(parts_.bell) {}
  Status run();
  Status loop(CallEngine& engine, DataPlane* plane, net::Waiter& waiter);
  Status rest(CallEngine& engine, const DataPlane* plane, net::Waiter& waiter);
  Status agreeOn(Status ended);

  ChannelParts parts_;
  CallInbox inbox_;
  std::string transport_;  // written before started_ is set
  std::promise<Status> started_;
  std::atomic<uint64_t> drained_{0};
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace bps
