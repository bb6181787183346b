// Tests how a rank carries out a change of the servers. The test is the hub. The rank uses no network; for the lanes
// see data_plane_test.cc.
#include "src/comm/servers/server_change.h"

#include <latch>

#include "tests/unit/control/fake_hub.h"

namespace bps::test {
namespace {

using Kind = ServerEvent::Kind;
using Reply = ServerReply::Kind;

class ServerChangeTest : public testing::Test {
 protected:
  static constexpr uint32_t kPresent = 0, kAbsent = 1, kChange = 4;

  // Runs `body` on a rank whose first server is present and whose second one is absent.
  void run(const std::function<void()>& body) {
    std::latch sent(1);  // the rank's thread, which runs the body, and this one use the same socket
    hub_.body = [&](ControlPlane& control) -> Status {
      sent.wait();
      cutter_.emplace(control.roster(), std::move(JobPlan::make(control.roster())).value());
      waiter_.emplace(std::move(net::Waiter::create(*bell_)).value());
      change_.emplace(control, *cutter_, nullptr, *waiter_);
      body();
      return {Code::kInternal, "end of the test"};
    };
    Roster roster = FakeHub::roster();
    roster.servers = {{"present:1", 0, true}, {"absent:1", 0, false}};
    hub_.send(MessageType::kRoster, encode(roster));
    sent.count_down();
    EXPECT_EQ(hub_.outcome(), "end of the test");
  }
  // Cuts calls until there are `calls` of them. Returns false if a call had to wait and the communicator then failed.
  bool cutUntil(uint64_t calls) {
    bool cut = true;
    while (cut && cutter_->callsCut() < calls) {
      Collective call;
      cut = cutter_->cut(call, failure_).ok();
    }
    return cut;
  }
  // True if the next call is not cut before release().
  bool held() {
    FirstError failed;
    failed.set(Status(Code::kRemote, "the test waits no longer"));
    Collective call;
    const uint64_t before = cutter_->callsCut();
    return !cutter_->cut(call, failed).ok() && cutter_->callsCut() == before;
  }
  // Passes an event to the rank, and returns the error or "".
  std::string handle(Kind kind, uint32_t server, uint64_t call = 0) {
    ServerEvent event{kind, server};
    event.change = kChange;
    event.call = call;
    event.bytesPerSecond = 1;
    event.rateFactor = .5;
    return change_->handle(event).message();
  }
  void expectReply(Reply kind, uint64_t limit = 0) {
    const Frame frame = hub_.next();
    Result<ServerReply> decoded = decode<ServerReply>(frame.payload);
    ASSERT_TRUE(decoded.ok()) << decoded.error().message();
    const ServerReply reply = std::move(decoded).value();
    EXPECT_EQ(reply.kind, kind);
    EXPECT_EQ(reply.change, kChange);
    EXPECT_EQ(reply.limit, limit);
    EXPECT_TRUE(reply.handles.empty());
  }
  bool step(uint64_t callsBegun) { return change_->step(callsBegun).value(); }
  uint64_t weightAt(uint64_t call, uint32_t server) { return cutter_->weights().at(call).value()[2 + server]; }
  void becomeReady(uint64_t callsCut) {
    EXPECT_TRUE(cutUntil(callsCut));
    EXPECT_EQ(handle(Kind::kJoining, kAbsent), "");
    expectReply(Reply::kHandles);
    EXPECT_EQ(handle(Kind::kHandles, kAbsent), "");
    expectReply(Reply::kConnected);
    EXPECT_TRUE(cutUntil(++callsCut)) << "another rank may still be connecting";
    EXPECT_EQ(handle(Kind::kConnected, kAbsent), "");
    expectReply(Reply::kReady, callsCut);
  }

  std::shared_ptr<Doorbell> bell_ = std::make_shared<Doorbell>(std::move(Doorbell::create()).value());
  FakeHub hub_;
  std::optional<CallCutter> cutter_;
  FirstError failure_;
  std::optional<net::Waiter> waiter_;
  std::optional<ServerChange> change_;
};

TEST_F(ServerChangeTest, ARankThatIsReadyCutsNoCallBeforeItKnowsTheFirstCallOfTheServer) {
  run([&] {
    becomeReady(4);
    EXPECT_TRUE(held());
    EXPECT_FALSE(step(5));
    EXPECT_EQ(handle(Kind::kAt, kAbsent, 7), "");
    EXPECT_TRUE(cutUntil(8));
    EXPECT_TRUE(change_->mayBegin(6));
    EXPECT_FALSE(change_->mayBegin(7)) << "the new lane is not in its place yet";
    EXPECT_FALSE(step(6));
    EXPECT_TRUE(step(7));
    expectReply(Reply::kDone);
    EXPECT_TRUE(change_->mayBegin(7));
    EXPECT_FALSE(step(8)) << "done once";
    EXPECT_EQ(handle(Kind::kEnd, kAbsent), "");
    EXPECT_EQ(weightAt(6, kAbsent), 0U);
    EXPECT_GT(weightAt(7, kAbsent), 0U);
  });
}

TEST_F(ServerChangeTest, CallsDoNotWaitForTheLaneOfAServerThatLeaves) {
  run([&] {
    EXPECT_TRUE(cutUntil(3));
    EXPECT_EQ(handle(Kind::kLeaving, kPresent), "");
    expectReply(Reply::kReady, 3);
    EXPECT_TRUE(held());
    EXPECT_EQ(handle(Kind::kAt, kPresent, 3), "");
    EXPECT_FALSE(held());
    EXPECT_TRUE(change_->mayBegin(3));
    EXPECT_TRUE(step(3));
    expectReply(Reply::kDone);
    EXPECT_EQ(handle(Kind::kEnd, kPresent), "");
    EXPECT_GT(weightAt(2, kPresent), 0U);
    EXPECT_EQ(weightAt(3, kPresent), 0U);
    EXPECT_EQ(cutter_->weights().present(), 0U);
  });
}

TEST_F(ServerChangeTest, ANewRateConcernsTheCallsFromItsFirstCallOn) {
  run([&] {
    EXPECT_TRUE(cutUntil(3));
    EXPECT_EQ(handle(Kind::kNewRate, kPresent), "");
    expectReply(Reply::kReady, 3);
    EXPECT_TRUE(held());
    EXPECT_EQ(handle(Kind::kAt, kPresent, 4), "");
    EXPECT_TRUE(change_->mayBegin(4)) << "the lane stays in its place";
    EXPECT_TRUE(step(4));
    expectReply(Reply::kDone);
    EXPECT_EQ(handle(Kind::kEnd, kPresent), "");
    EXPECT_EQ(cutter_->weights().present(), 1U);
  });
}

TEST_F(ServerChangeTest, AnAbortedChangeLeavesEverythingAsItWas) {
  run([&] {
    becomeReady(4);
    EXPECT_EQ(handle(Kind::kAborted, kAbsent), "");
    EXPECT_FALSE(held());
    EXPECT_TRUE(change_->mayBegin(5));
    EXPECT_FALSE(step(6));
    EXPECT_EQ(weightAt(UINT64_MAX, kAbsent), 0U);
    becomeReady(6);
  });
}

TEST_F(ServerChangeTest, EventsInAWrongOrderAreFailures) {
  run([&] {
    const std::string wrong = "at the wrong time";
    const auto expectWrong = [&](Kind kind, uint32_t server, uint64_t call = 0) {
      EXPECT_NE(handle(kind, server, call).find(wrong), std::string::npos) << static_cast<int>(kind);
    };
    EXPECT_TRUE(cutUntil(5));
    for (const Kind kind : {Kind::kHandles, Kind::kConnected, Kind::kAt, Kind::kEnd, Kind::kAborted, Kind::kLost})
      expectWrong(kind, kPresent);
    expectWrong(Kind::kJoining, 2);
    EXPECT_EQ(handle(Kind::kJoining, kAbsent), "");
    expectReply(Reply::kHandles);
    for (const Kind kind : {Kind::kJoining, Kind::kLeaving, Kind::kConnected, Kind::kAt, Kind::kEnd})
      expectWrong(kind, kAbsent);
    EXPECT_EQ(handle(Kind::kHandles, kAbsent), "");
    expectReply(Reply::kConnected);
    for (const Kind kind : {Kind::kHandles, Kind::kAt, Kind::kEnd}) expectWrong(kind, kAbsent);
    EXPECT_EQ(handle(Kind::kConnected, kAbsent), "");
    expectReply(Reply::kReady, 5);
    for (const Kind kind : {Kind::kHandles, Kind::kConnected, Kind::kEnd}) expectWrong(kind, kAbsent);
    expectWrong(Kind::kAt, kAbsent, 4);  // this rank has cut the call
    EXPECT_EQ(handle(Kind::kAt, kAbsent, 6), "");
    for (const Kind kind : {Kind::kAt, Kind::kAborted, Kind::kEnd}) expectWrong(kind, kAbsent);
  });
}

}  // namespace
}  // namespace bps::test
