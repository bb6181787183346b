// The end of a side, in order and not: nothing crashes, nothing waits for ever, and the other side is told.
#include <signal.h>

#include <thread>

#include "tools/net_plugin_check/flow.h"
#include "tools/net_plugin_check/rules/rules.h"

namespace bps::check {
namespace {

// More than any socket buffer holds.
FlowPlan longPlan() { return {.messages = std::vector<Message>(64, Message{size_t{8} << 20, 0}), .window = 2}; }

// The flow must fail in --notice seconds from now, by what the plugin says. Text: after how long, and what.
Result<std::string> waitForError(Side& side, Flow& flow) {
  const int64_t start = nowNs();
  const Deadline deadline = Deadline::in(std::chrono::duration_cast<std::chrono::nanoseconds>(
      std::chrono::duration<double>(side.options().noticeSeconds)));
  for (Backoff backoff;; backoff()) {
    Result<Progress> moved = flow.step();
    if (!moved.ok() && moved.error().code() == Code::kSystem)
      return fmt::format("after {}: {}", milliseconds(nowNs() - start), moved.error().message());
    if (BPS_TRY(std::move(moved)) == Progress::kDone)
      return Status(Code::kInternal, "all messages passed, though the other side had ended");
    if (deadline.passed())
      return failure(Code::kInternal, "test has told nothing {} s after the other side's end",
                     side.options().noticeSeconds);
  }
}

Status stepFor(Flow& flow, std::chrono::microseconds time) {
  for (const Deadline until = Deadline::in(time); !until.passed();) BPS_TRY(flow.step());
  return {};
}

// After an error of one connection the plugin goes on: this one is closed, and a new context and listener can be had.
Status checkStillUsable(Side& side, void* comm) {
  BPS_TRY(side.close(comm));
  HandleBox handle;
  return side.closeListener(BPS_TRY(side.listenFor(handle)));
}

// Some moment of a flow, another in every run.
std::chrono::microseconds randomDelay() { return std::chrono::microseconds(nowNs() % 40000); }

// `victim` is this side: messages pass until it is killed in the middle of them.
Result<std::string> killed(Side& side, bool victim) {
  void* comm = BPS_TRY(side.connectOne());
  Flow flow = BPS_TRY(Flow::create(side, comm, side.sends(), longPlan()));
  BPS_TRY(stepFor(flow, randomDelay()));
  if (victim) {
    BPS_TRY(side.sendToPeer());
    BPS_TRY(side.receiveFromPeer());  // nothing comes
    return Status(Code::kInternal, "was not killed");
  }
  BPS_TRY(side.receiveFromPeer());
  if (::kill(side.peerPid(), SIGKILL) != 0) return Status(Code::kInternal, "cannot kill the other side");
  std::string told = BPS_TRY(waitForError(side, flow));
  BPS_TRY(flow.release());
  BPS_TRY(checkStillUsable(side, comm));
  return told;
}

Result<std::string> senderKilled(Side& side) { return killed(side, side.sends()); }
Result<std::string> receiverKilled(Side& side) { return killed(side, !side.sends()); }

// The one side closes with messages under way, and stays.
Result<std::string> closed(Side& side, bool leaves) {
  void* comm = BPS_TRY(side.connectOne());
  Flow flow = BPS_TRY(Flow::create(side, comm, side.sends(), longPlan()));
  BPS_TRY(stepFor(flow, std::chrono::milliseconds(20)));
  BPS_TRY(side.barrier());
  if (leaves) {
    BPS_TRY(flow.release());
    BPS_TRY(side.close(comm));
    BPS_TRY(side.sendToPeer());
    return std::string();
  }
  BPS_TRY(side.receiveFromPeer());
  std::string told = BPS_TRY(waitForError(side, flow));
  BPS_TRY(flow.release());
  BPS_TRY(checkStillUsable(side, comm));
  return told;
}

Result<std::string> senderCloses(Side& side) { return closed(side, side.sends()); }
Result<std::string> receiverCloses(Side& side) { return closed(side, !side.sends()); }

// Both close at about the same time with all that is under way, as when a communicator is aborted; then all goes on.
// What is registered is taken back first, as NCCL does then too.
Result<std::string> closeInFlight(Side& side) {
  for (int i = 0; i < 10; ++i) {
    void* comm = BPS_TRY(side.connectOne());
    {
      Flow flow = BPS_TRY(Flow::create(side, comm, side.sends(), {.messages = {{0}, {size_t{4} << 20}, {8}}}));
      if (side.sends() || i % 2 == 0) BPS_TRY(flow.post());
      if (i % 3 == 0) BPS_TRY(flow.step());
      BPS_TRY(side.barrier());
      BPS_TRY(flow.release());
      BPS_TRY(side.close(comm));
    }  // the memory goes: nothing may touch it any more
    comm = BPS_TRY(side.connectOne());
    BPS_TRY(transfer(side, comm, {.messages = {{5000}}}));
    BPS_TRY(side.close(comm));
  }
  return std::string();
}

// A sender that knows its messages to be sent may close: they arrive.
Result<std::string> closeWhenSent(Side& side) {
  void* comm = BPS_TRY(side.connectOne());
  Flow flow = BPS_TRY(Flow::create(side, comm, side.sends(), {.messages = {{300000}, {0}, {300000}}}));
  BPS_TRY(flow.post());
  if (side.sends()) {
    BPS_TRY(run(side, {&flow, 1}));
    BPS_TRY(flow.release());
    BPS_TRY(side.close(comm));
  } else {
    // Moves now and then, so that a sender that needs us gets done, and mostly is not there.
    const Deadline until = Deadline::in(std::chrono::milliseconds(100));
    for (; !until.passed(); std::this_thread::sleep_for(std::chrono::milliseconds(20))) BPS_TRY(flow.step());
    BPS_TRY(run(side, {&flow, 1}));
    BPS_TRY(flow.release());
    BPS_TRY(side.close(comm));
  }
  return std::string();
}

Result<std::string> exitWhileConnected(Side& side) {
  void* comm = BPS_TRY(side.connectOne());
  static Flow* flow = nullptr;  // its memory outlives this
  flow = new Flow(BPS_TRY(Flow::create(side, comm, side.sends(), longPlan())));
  BPS_TRY(stepFor(*flow, std::chrono::milliseconds(20)));
  return std::string();
}

constexpr std::array<Rule, 7> kFailureRules{{
    {"close-when-sent", "what test called sent arrives, though the sender closes", closeWhenSent},
    {"close-in-flight", "both sides close with messages under way; new connections work", closeInFlight},
    {"sender-closes", "in the middle of messages: the receiver is told in time (--notice)", senderCloses},
    {"receiver-closes", "in the middle of messages: the sender is told in time (--notice)", receiverCloses},
    {"sender-killed", "in the middle of messages: the receiver is told in time (--notice)", senderKilled,
     Scenario::kSenderDies},
    {"receiver-killed", "in the middle of messages: the sender is told in time (--notice)", receiverKilled,
     Scenario::kReceiverDies},
    {"exit-while-connected", "leaving the process with everything open does not crash", exitWhileConnected,
     Scenario::kExit},
}};

}  // namespace

std::span<const Rule> failureRules() { return kFailureRules; }

}  // namespace bps::check
