// Tests Mailbox, through which callers and the control thread of a control plane communicate. The control thread must
// get the callers' calls in order. Every wait of a caller must end with an answer, a failure, an interrupt or its
// deadline.
#include "src/control/mailbox.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <string>
#include <thread>

namespace bps::test {
namespace {

using namespace std::chrono_literals;

class FakeNode final : public ControlNode {
 public:
  std::vector<std::string> heard;

  void startOp(ControlOp, std::vector<Blob> blobs, Deadline) override {
    heard.push_back("start of " + std::to_string(blobs.size()));
  }
  void report(Status failure) override { heard.emplace_back(failure.message()); }
  void suspect(size_t member, std::string text) override { heard.push_back(std::to_string(member) + " " + text); }
  void reply(ServerReply) override {}
  void proposeRate(size_t, double) override {}
  void leave() override { heard.emplace_back("leave"); }
  void setHeartbeat(const Heartbeat&) override {}
  void watch(PollSet&) const override {}
  void step(const PollSet&) override {}
  bool isFlushed() const override { return true; }
};

class MailboxTest : public testing::Test {
 protected:
  MailboxTest() {
    roster_.ranks = {{"a", "hostA", 1, 0, 0}, {"b", "hostB", 2, 1, 0}};
    roster_.machines = {{{0}, 0}, {{1}, 0}};
    roster_.settings.timeoutMs = 1000;
  }
  // Runs all waiting calls, as the control thread does. Returns true if stop() was called.
  bool runCalls() {
    bool stopped = false;
    for (const Mailbox::Call& call : mailbox_.takeCalls(stopped)) call(node_);
    return stopped;
  }
  bool rung() {
    pollfd poll{mailbox_.wakeFd(), POLLIN, 0};
    return ::poll(&poll, 1, 0) == 1;
  }
  Status waitJoin(Deadline deadline) {
    Roster roster;
    return mailbox_.waitJoin(deadline, roster);
  }
  // Runs `later` on another thread after 20 ms, when the caller has begun to wait.
  template <class F>
  static std::jthread soon(F later) {
    return std::jthread([later] {
      std::this_thread::sleep_for(20ms);
      later();
    });
  }

  Roster roster_;
  std::vector<std::string> sink_;
  FakeNode node_;
  Mailbox mailbox_{std::move(Doorbell::create()).value(),
                   {[this](Status failure) { sink_.emplace_back(failure.message()); }, {}}};
};

TEST_F(MailboxTest, CallsWakeTheControlThreadAndComeInOrder) {
  EXPECT_FALSE(rung());
  for (size_t member = 0; member < 3; ++member)
    mailbox_.post([member](ControlNode& node) { node.suspect(member, "broke"); });
  EXPECT_TRUE(rung());
  EXPECT_FALSE(runCalls());
  EXPECT_EQ(node_.heard, (std::vector<std::string>{"0 broke", "1 broke", "2 broke"}));
  EXPECT_FALSE(rung());
  runCalls();
  EXPECT_EQ(node_.heard.size(), 3U) << "each call is handed out once";
}

TEST_F(MailboxTest, StopWakesTheControlThread) {
  mailbox_.stop();
  EXPECT_TRUE(rung());
}

TEST_F(MailboxTest, StopComesWithTheCallsBeforeIt) {
  mailbox_.post([](ControlNode& node) { node.leave(); });
  mailbox_.stop();
  EXPECT_TRUE(runCalls());
  EXPECT_EQ(node_.heard.size(), 1U);
}

TEST_F(MailboxTest, JoinReturnsTheRoster) {
  std::jthread control = soon([this] { mailbox_.joined(roster_); });
  Roster roster;
  EXPECT_TRUE(mailbox_.waitJoin(Deadline::in(5s), roster).ok());
  control.join();
  EXPECT_EQ(roster.ranks.size(), 2U);
}

TEST_F(MailboxTest, AFailureEndsTheJoinAndTheSinkHearsNothing) {
  std::jthread control = soon([this] { mailbox_.failed({Code::kRemote, "rank 1 is missing"}); });
  EXPECT_EQ(waitJoin(Deadline::in(5s)).message(), std::string("rank 1 is missing"));
  control.join();
  EXPECT_TRUE(sink_.empty()) << "join() tells the caller";
}

TEST_F(MailboxTest, AnInterruptEndsTheJoin) {
  std::jthread caller = soon([this] { mailbox_.interrupt(); });
  const Status aborted = waitJoin(Deadline::in(5s));
  caller.join();
  EXPECT_EQ(aborted.code(), Code::kInvalidUsage);
}

TEST_F(MailboxTest, AControlThreadThatDoesNotAnswerIsReportedSoonAfterTheDeadline) {
  const auto start = Deadline::Clock::now();
  EXPECT_EQ(waitJoin(Deadline::in(1ms)).message(), std::string("the control thread does not answer"));
  EXPECT_LT(Deadline::Clock::now() - start, 5s);
}

TEST_F(MailboxTest, TheSinkHearsTheFirstFailureOnce) {
  mailbox_.joined(roster_);
  mailbox_.failed({Code::kRemote, "rank 1 died"});
  mailbox_.failed({Code::kRemote, "a consequence"});
  EXPECT_EQ(sink_, std::vector<std::string>{"rank 1 died"});
}

TEST_F(MailboxTest, AControlOpIsStartedAndItsAnswerReturned) {
  mailbox_.joined(roster_);
  std::jthread control = soon([this] {
    runCalls();
    mailbox_.answered(ControlOp::kGather, std::vector<Blob>{{1}, {2}});
  });
  const Result<std::vector<Blob>> answer = mailbox_.runOp(ControlOp::kGather, {{1}}, Deadline::in(5s));
  control.join();
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(node_.heard, std::vector<std::string>{"start of 1"});
}

TEST_F(MailboxTest, AnOldAnswerIsNotTakenForTheNextControlOp) {
  mailbox_.joined(roster_);
  mailbox_.answered(ControlOp::kGather, std::vector<Blob>{{1}});
  std::jthread caller = soon([this] { mailbox_.interrupt(); });
  const Result<std::vector<Blob>> answer = mailbox_.runOp(ControlOp::kGather, {}, Deadline::in(5s));
  caller.join();
  ASSERT_FALSE(answer.ok());
  EXPECT_EQ(answer.error().message(), std::string("aborted"));
}

TEST_F(MailboxTest, AFailureEndsAControlOpInItsOwnWords) {
  mailbox_.joined(roster_);
  std::jthread control = soon([this] { mailbox_.failed({Code::kRemote, "rank 1 died"}); });
  const Result<std::vector<Blob>> answer = mailbox_.runOp(ControlOp::kBarrier, {}, Deadline::in(5s));
  control.join();
  ASSERT_FALSE(answer.ok());
  EXPECT_EQ(answer.error().message(), std::string("rank 1 died"));
}

TEST_F(MailboxTest, LeaveWaitsUntilTheGoodbyeIsSentAndTheSinkHearsNothingAfterwards) {
  mailbox_.joined(roster_);
  std::jthread control = soon([this] {
    runCalls();
    mailbox_.leaveDone();
  });
  mailbox_.waitLeave(Deadline::in(5s));
  control.join();
  EXPECT_EQ(node_.heard, std::vector<std::string>{"leave"});
  mailbox_.failed({Code::kRemote, "the hub is gone"});
  EXPECT_TRUE(sink_.empty());
}

TEST_F(MailboxTest, LeaveBeforeTheJoinIsNothing) {
  mailbox_.waitLeave(Deadline::in(5s));
  runCalls();
  EXPECT_TRUE(node_.heard.empty());
}

TEST_F(MailboxTest, KnowsWhichMembersHaveLeft) {
  mailbox_.memberLeft(1);
  mailbox_.joined(roster_);
  EXPECT_FALSE(mailbox_.hasLeft(1)) << "there was no such member yet";
  mailbox_.memberLeft(1);
  mailbox_.memberLeft(2);
  EXPECT_TRUE(mailbox_.hasLeft(1));
  EXPECT_FALSE(mailbox_.hasLeft(0));
  EXPECT_FALSE(mailbox_.hasLeft(2)) << "the roster has two members";
  mailbox_.hubLeft();
  EXPECT_TRUE(mailbox_.hasLeft(0)) << "without the hub nobody tells who else has left";
}

TEST_F(MailboxTest, HeartbeatsCarryTheProgressOfThisRank) {
  mailbox_.setCallsStarted(7);
  mailbox_.setWait({5, 1});
  const Heartbeat heartbeat = mailbox_.heartbeat();
  EXPECT_EQ(heartbeat.callsStarted, 7U);
  EXPECT_EQ(heartbeat.call, 5U);
  EXPECT_EQ(heartbeat.waitsFor, 1U);
}

}  // namespace
}  // namespace bps::test
