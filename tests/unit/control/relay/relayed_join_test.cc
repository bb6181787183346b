// Tests communicators whose control connections lead through relays. All machines are in this process, on loopback
// addresses. Only rank 0 may dial directly.
#include <fstream>

#include "src/control/relay/relay_member.h"
#include "tests/support/temp_path.h"
#include "tests/unit/control/cluster.h"

namespace bps::test {
namespace {

// Writes the addresses of BCube(2,2), and to PATH1 those of ranks 2 and 3 only.
std::string writeAddresses() {
  const std::string path = tempPath("relayed");
  std::ofstream(path + "1") << "0 127.0.1.3\n1 127.0.1.4\n";
  std::ofstream(path)
      << "00 127.0.1.1 127.0.2.1\n10 127.0.1.2 127.0.2.2\n01 127.0.1.3 127.0.2.3\n11 127.0.1.4 127.0.2.4\n";
  return path;
}

const std::string& addresses() {
  static const std::string path = writeAddresses();
  return path;
}

// Rank r is the machine with this address of BCube(2,2). Its neighbours are r ^ 1 and r ^ 2.
Env envOf(uint32_t rank, uint16_t relayPort, double timeout = 3) {
  Env env = localEnv(timeout);
  env.fabric = "bcube:n=2,k=2,addresses=" + addresses() + ",address=" + std::to_string(rank & 1) +
               std::to_string(rank >> 1) + ",relay=" + std::to_string(relayPort);
  return env;
}

class RelayedJoin : public testing::Test {
 protected:
  // Rank `r` joins with the environment. The ranks join one after the other if `order` is given.
  void join(const std::function<void(uint32_t, Env&)>& change = [](uint32_t, Env&) {}) {
    const UniqueId id = newId(localEnv(5));
    std::vector<std::jthread> threads;
    for (uint32_t r = 0; r < 4; ++r)
      threads.emplace_back([&, r] {
        Env env = envOf(r, port_);
        change(r, env);
        JoinArgs args{id, r, 4, "machine " + std::to_string(r)};
        args.direct = r == 0;
        auto plane = joinPlane(env, args, soon(env.timeout.value), ranks_[r].failures.sink());
        if (plane.ok()) ranks_[r].plane = std::move(plane).value();
        else ranks_[r].joined = std::move(plane).status();
      });
  }
  ~RelayedJoin() override {
    for (Rank& rank : ranks_) rank.plane.reset();
    const Deadline deadline = soon(3);
    while (runningRelays() > 0 && !deadline.passed()) std::this_thread::sleep_for(5ms);
    EXPECT_EQ(runningRelays(), 0U);
  }

  const uint16_t port_ = freeAddress().port();
  std::array<Rank, 4> ranks_;
};

TEST_F(RelayedJoin, AllRanksMeetThroughTheRelays) {
  join();
  for (Rank& rank : ranks_) ASSERT_TRUE(rank.joined.ok()) << rank.joined.message();
  EXPECT_EQ(ranks_[3].plane->roster().settings.fabricN, 2U);
  EXPECT_EQ(ranks_[3].plane->roster().settings.fabricK, 2U);
  EXPECT_EQ(runningRelays(), 4U);
  std::vector<std::jthread> threads;
  for (Rank& rank : ranks_)
    threads.emplace_back([&] {
      const Result<std::vector<Blob>> all = rank.plane->gather({1, 2, 3}, soon());
      EXPECT_TRUE(all.ok()) << all.error().message();
      rank.plane->leave(soon());
    });
  threads.clear();
}

TEST_F(RelayedJoin, ARankThatLeavesEarlyStillRelays) {
  join();
  for (Rank& rank : ranks_) ASSERT_TRUE(rank.joined.ok()) << rank.joined.message();
  for (size_t early : {1, 2}) {
    ranks_[early].plane->leave(soon());
    ranks_[early].plane.reset();
  }
  std::this_thread::sleep_for(100ms);
  EXPECT_EQ(ranks_[3].failures.count(), 0) << ranks_[3].failures.wait(0);
  ranks_[3].plane->report(Status(Code::kInvalidUsage, "news of rank 3"));
  EXPECT_EQ(ranks_[0].failures.wait(), "news of rank 3");
}

TEST_F(RelayedJoin, CommunicatorsFollowEachOtherAtOnce) {
  for (int turn = 0; turn < 5; ++turn) {
    join();
    for (Rank& rank : ranks_) ASSERT_TRUE(rank.joined.ok()) << turn << ": " << rank.joined.message();
    std::vector<std::jthread> threads;
    for (Rank& rank : ranks_) threads.emplace_back([&] { rank.plane->leave(soon()); });
    threads.clear();
    for (Rank& rank : ranks_) rank.plane.reset();
  }
}

TEST_F(RelayedJoin, AProcessTakesOverTheRelayPortOfAnEndedOne) {
  UniqueFd ended = std::move(listenOn(Address::of(std::array<uint8_t, 4>{127, 0, 1, 2}, port_))).value();
  UniqueFd stranger = std::move(listenOn(Address::of(std::array<uint8_t, 4>{127, 0, 1, 3}, port_))).value();
  std::jthread ending([&] {
    std::this_thread::sleep_for(300ms);
    ended.reset();
  });
  join();
  for (Rank& rank : ranks_) EXPECT_TRUE(rank.joined.ok()) << rank.joined.message();
}

TEST_F(RelayedJoin, ADifferentFabricIsNamed) {
  join([&](uint32_t rank, Env& env) {
    if (rank == 3) env.fabric = "hypercube:k=1,addresses=" + addresses() + "1,address=1,relay=" + std::to_string(port_);
  });
  for (const size_t rank : {0, 3}) {
    const std::string text = ranks_[rank].joined.message();
    EXPECT_TRUE(contains(text, "rank 3 (")) << text;
    EXPECT_TRUE(contains(text, "has BPS_FABRIC=bcube:n=2,k=1, but rank 0 (")) << text;
    EXPECT_TRUE(contains(text, "has BPS_FABRIC=bcube:n=2,k=2")) << text;
  }
}

TEST_F(RelayedJoin, ServersAreRefusedByName) {
  join([](uint32_t, Env& env) { env.servers = "127.0.0.1:1"; });
  for (const Rank& rank : ranks_)
    EXPECT_TRUE(contains(rank.joined.message(), "servers are not possible on a fabric")) << rank.joined.message();
}

TEST(Fabric, TheNumberOfMachinesMustBeThatOfTheFabric) {
  Env env = localEnv();
  env.fabric = "bcube:n=2,k=2";
  Cluster three(3, env);
  for (size_t r = 0; r < 3; ++r)
    EXPECT_TRUE(contains(three[r].joined.message(),
                         "BPS_FABRIC=bcube:n=2,k=2 has 4 machines, but the ranks of the communicator run on 3"))
        << three[r].joined.message();
  Cluster one(3, env, [](uint32_t) { return "the same"; });
  one.expectJoined();
  EXPECT_EQ(one.plane(1).roster().settings.fabricN, 0U) << "a machine needs no network";
  one.leave();
}

// The neighbours of rank 3, ranks 1 and 2, do not get their relay port.
class RelayPortInUse : public RelayedJoin {
 protected:
  std::array<UniqueFd, 2> listeners() const { return {listener({127, 0, 1, 2}), listener({127, 0, 1, 3})}; }
  void expectNamed(const std::string& why) {
    join([](uint32_t, Env& env) { env.timeout.value = 1.5; });
    for (const size_t rank : {1, 2}) {
      const std::string text = ranks_[rank].joined.message();
      EXPECT_TRUE(contains(text, "the relay port 127.0.1." + std::to_string(rank + 1) + ":")) << text;
      EXPECT_TRUE(contains(text, " of this machine is in use: " + why)) << text;
      EXPECT_TRUE(contains(text, "every job on a machine needs its own relay= in BPS_FABRIC: ")) << text;
    }
    EXPECT_TRUE(contains(ranks_[0].joined.message(), "1 of 4 ranks missing: 3")) << ranks_[0].joined.message();
  }

 private:
  UniqueFd listener(const std::array<uint8_t, 4>& ip) const {
    return std::move(listenOn(Address::of(ip, port_))).value();
  }
};

TEST_F(RelayPortInUse, ByAnotherProgram) {
  const auto others = listeners();
  expectNamed("the program that listens there does not answer as a relay");
}

TEST_F(RelayPortInUse, ByAnotherJob) {
  std::vector<UniqueFd> others;
  for (UniqueFd& listener : listeners()) others.push_back(std::move(listener));
  const auto other = std::move(Relay::create(std::move(others), 100ms)).value();
  expectNamed("the process that relays at 127.0.1.");
  EXPECT_TRUE(contains(ranks_[3].joined.message(), "; it may belong to another job")) << ranks_[3].joined.message();
}

}  // namespace
}  // namespace bps::test
