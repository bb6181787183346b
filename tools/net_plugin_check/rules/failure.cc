// Rules for a side that closes cleanly or dies. The plugin must not crash or hang, and the other
// side must get an error.
#include <signal.h>

#include <thread>

#include "tools/net_plugin_check/flow.h"
#include "tools/net_plugin_check/rules/rules.h"

namespace bps::check {
namespace {

// Returns a plan whose messages are larger than any socket buffer.
FlowPlan longPlan() { return {.messages = std::vector<Message>(64, Message{size_t{8} << 20, 0}), .window = 2}; }

// Checks that the plugin returns an error for the flow within --notice seconds. Returns a text with
// the time and the error.
Result<std::string> waitForError(Side& side, Flow& flow) {
  const int64_t start = nowNs();
  const Deadline deadline = Deadline::in(std::chrono::duration_cast<std::chrono::nanoseconds>(
      std::chrono::duration<double>(side.options().noticeSeconds)));
  for (Backoff backoff;; backoff()) {
    Result<Progress> moved = flow.step();
    if (!moved.ok() && moved.error().code() == Code::kSystem)
      return fmt::format("after {}: {}", milliseconds(nowNs() - start), moved.error().message());
    if (BPS_TRY(std::move(moved)) == Progress::kDone)
      return Status(Code::kInternal, "all messages completed although the other side had ended");
    if (deadline.passed())
      return failure(Code::kInternal, "test has reported no error {} s after the end of the other side",
                     side.options().noticeSeconds);
  }
}

Status stepFor(Flow& flow, std::chrono::microseconds time) {
  for (const Deadline until = Deadline::in(time); !until.passed();) BPS_TRY(flow.step());
  return {};
}

// Checks that a connection can be closed after an error, and that the plugin can then still listen.
Status checkStillUsable(Side& side, void* comm) {
  BPS_TRY(side.close(comm));
  HandleBox handle;
  return side.closeListener(BPS_TRY(side.listenFor(handle)));
}

// Returns a random time within the duration of a flow.
std::chrono::microseconds randomDelay() { return std::chrono::microseconds(nowNs() % 40000); }

// Kills the side on which `victim` is true, while messages are in flight.
Result<std::string> killed(Side& side, bool victim) {
  void* comm = BPS_TRY(side.connectOne());
  Flow flow = BPS_TRY(Flow::create(side, comm, side.sends(), longPlan()));
  BPS_TRY(stepFor(flow, randomDelay()));
  if (victim) {
    BPS_TRY(side.sendToPeer());
    BPS_TRY(side.receiveFromPeer());  // waits until this side is killed; nothing arrives
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

// One side closes the connection while messages are in flight. The process of that side continues.
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

// Both sides close at about the same time with requests in flight, as in an abort of a
// communicator. New connections must then work. As in NCCL, memory is deregistered before the
// close.
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
    }  // frees the memory, which the plugin must not access any more
    comm = BPS_TRY(side.connectOne());
    BPS_TRY(transfer(side, comm, {.messages = {{5000}}}));
    BPS_TRY(side.close(comm));
  }
  return std::string();
}

// When test has reported all messages as sent, the sender may close the connection. The messages
// must still arrive.
Result<std::string> closeWhenSent(Side& side) {
  void* comm = BPS_TRY(side.connectOne());
  Flow flow = BPS_TRY(Flow::create(side, comm, side.sends(), {.messages = {{300000}, {0}, {300000}}}));
  BPS_TRY(flow.post());
  if (!side.sends()) {
    // Steps only every 20 ms. The sender then usually completes and closes between two steps.
    const Deadline until = Deadline::in(std::chrono::milliseconds(100));
    for (; !until.passed(); std::this_thread::sleep_for(std::chrono::milliseconds(20))) BPS_TRY(flow.step());
  }
  BPS_TRY(run(side, {&flow, 1}));
  BPS_TRY(flow.release());
  BPS_TRY(side.close(comm));
  return std::string();
}

Result<std::string> exitWhileConnected(Side& side) {
  void* comm = BPS_TRY(side.connectOne());
  static Flow* flow = nullptr;  // never freed, because requests are in flight at exit
  flow = new Flow(BPS_TRY(Flow::create(side, comm, side.sends(), longPlan())));
  BPS_TRY(stepFor(*flow, std::chrono::milliseconds(20)));
  return std::string();
}

constexpr std::array<Rule, 7> kFailureRules{{
    {"close-when-sent", "messages that test reported as sent arrive although the sender closes", closeWhenSent},
    {"close-in-flight", "both sides close with messages in flight; new connections work", closeInFlight},
    {"sender-closes", "the sender closes during a transfer: the receiver gets an error in time (--notice)",
     senderCloses},
    {"receiver-closes", "the receiver closes during a transfer: the sender gets an error in time (--notice)",
     receiverCloses},
    {"sender-killed", "the sender is killed during a transfer: the receiver gets an error in time (--notice)",
     senderKilled, Scenario::kSenderDies},
    {"receiver-killed", "the receiver is killed during a transfer: the sender gets an error in time (--notice)",
     receiverKilled, Scenario::kReceiverDies},
    {"exit-while-connected", "exit() with open connections does not crash", exitWhileConnected, Scenario::kExit},
}};

}  // namespace

std::span<const Rule> failureRules() { return kFailureRules; }

}  // namespace bps::check
