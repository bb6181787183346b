#include "src/wire/roster.h"

#include <gtest/gtest.h>

#include <random>

namespace bps {
namespace {

Roster sample() {
  Roster roster;
  roster.jobId = 42;
  roster.ranks = {
      {"a", "host1", 10, 0, 0}, {"b", "host2", 11, 1, 0}, {"b", "host2", 12, 1, 1}, {"a", "host1", 13, 0, 1}};
  constexpr uint8_t kIp[] = {10, 1, 2, 3};
  roster.ranks[1].standby = Address::of(kIp, 4567);
  roster.machines = {{{0, 3}, 1e9}, {{1, 2}, 0}};
  roster.servers = {{"cpu1:7700", 2e9}};
  roster.settings = {1 << 20, 1, 2, 10'000, 3, true};
  return roster;
}

bool accepted(const Roster& roster) { return decodeRoster(encode(roster)).ok(); }

TEST(Roster, RoundTrips) {
  const Blob bytes = encode(sample());
  Result<Roster> back = decodeRoster(bytes);
  ASSERT_TRUE(back.ok()) << back.error().message();
  const Roster roster = std::move(back).value();
  EXPECT_EQ(encode(roster), bytes);
  EXPECT_EQ(roster.ranks[1].standby.text(), "10.1.2.3:4567");
  EXPECT_EQ(roster.ranks[2].standby.length(), 0U);
}

TEST(Roster, NamesItsEndpoints) {
  const Roster roster = sample();
  EXPECT_EQ(roster.rankName(2), "rank 2 (host2, pid 12)");
  EXPECT_EQ(roster.endpointName(0), "ranks 0, 3 (host1)");
  EXPECT_EQ(roster.endpointName(1), "ranks 1-2 (host2)");
  EXPECT_EQ(roster.endpointName(2), "server cpu1:7700");
  EXPECT_EQ(roster.endpointName(3), "endpoint 3");
  EXPECT_EQ(rankRanges({2, 5, 6, 7, 9}), "2, 5-7, 9");
}

TEST(Roster, RefusesInconsistentFields) {
  const auto broken = [](auto&& change) {
    Roster roster = sample();
    change(roster);
    return !accepted(roster);
  };
  EXPECT_TRUE(broken([](Roster& r) { r.jobId = 0; }));
  EXPECT_TRUE(broken([](Roster& r) { r.settings.timeoutMs = 0; }));
  EXPECT_TRUE(broken([](Roster& r) { r.settings.partitionBytes = 0; }));
  EXPECT_TRUE(broken([](Roster& r) { r.machines[0].ranks[1] = 4; })) << "no such rank";
  EXPECT_TRUE(broken([](Roster& r) { r.machines[0].ranks = {3, 0}; })) << "not ascending";
  EXPECT_TRUE(broken([](Roster& r) { r.machines[0].ranks = {0}; })) << "a rank without machine";
  EXPECT_TRUE(broken([](Roster& r) { r.machines[1].ranks = {1, 2, 3}; })) << "a rank twice";
  EXPECT_TRUE(broken([](Roster& r) { std::swap(r.machines[0], r.machines[1]); })) << "machines out of order";
  EXPECT_TRUE(broken([](Roster& r) { r.ranks[2].machine = 0; }));
  EXPECT_TRUE(broken([](Roster& r) { r.ranks[2].localRank = 0; }));
  EXPECT_TRUE(broken([](Roster& r) { r.machines.push_back({}); })) << "an empty machine";
  EXPECT_TRUE(broken([](Roster& r) { r.machines[0].bytesPerSecond = -1; }));
  EXPECT_TRUE(broken([](Roster& r) { r.servers[0].bytesPerSecond = std::numeric_limits<double>::infinity(); }));
  EXPECT_TRUE(broken([](Roster& r) { r.servers[0].name.assign(5000, 'x'); }));
  EXPECT_FALSE(accepted(Roster()));
}

TEST(Roster, RefusesOtherVersionsByNumber) {
  Blob bytes = encode(sample());
  bytes[0] = 9;
  Result<Roster> back = decodeRoster(bytes);
  ASSERT_FALSE(back.ok());
  EXPECT_STREQ(back.error().message(), "roster version 9, this side speaks 8; rebuild one side");
}

TEST(Roster, MalformedBytesAreRefusedSafely) {
  const Blob good = encode(sample());
  for (size_t size = 0; size < good.size(); ++size) EXPECT_FALSE(decodeRoster(std::span(good).first(size)).ok());
  std::mt19937 random(1);
  for (int turn = 0; turn < 20'000; ++turn) {
    Blob bytes = good;
    for (int change = 0; change < 3; ++change) bytes[random() % bytes.size()] = static_cast<uint8_t>(random());
    Result<Roster> back = decodeRoster(bytes);
    if (!back.ok()) continue;
    EXPECT_EQ(encode(std::move(back).value()), bytes);
  }
}

}  // namespace
}  // namespace bps
