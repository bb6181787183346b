// What follows from the cards and the times that the ranks of an NCCL communicator show each other.
#include "src/interpose/agreement/card.h"

#include <gtest/gtest.h>

#include <string>

namespace bps::interpose {
namespace {

Card cardOn(uint64_t machine) {
  Card card;
  card.machine = machine;
  card.hasServers = true;
  card.room = 1U << 20;
  return card;
}

TEST(Card, TravelsWhole) {
  Card card = cardOn(0x1234567890abcdef);
  card.able = false;
  card.leastBytes = 4096;
  card.team = 77;
  card.anyOrder = true;
  card.why = "BPS_TIMEOUT is \"soon\"";
  const auto bytes = card.bytes();
  EXPECT_EQ(bytes.size(), Card::kBytes);
  const Card read = std::move(Card::parse(bytes)).value();
  EXPECT_EQ(read.machine, card.machine);
  EXPECT_FALSE(read.able);
  EXPECT_TRUE(read.hasServers);
  EXPECT_EQ(read.leastBytes, 4096U);
  EXPECT_EQ(read.room, card.room);
  EXPECT_EQ(read.team, 77U);
  EXPECT_TRUE(read.anyOrder);
  EXPECT_EQ(read.why, card.why);
}

TEST(Card, KeepsTheStartOfALongReason) {
  Card card = cardOn(1);
  card.why = std::string(1000, 'x');
  EXPECT_EQ(std::move(Card::parse(card.bytes())).value().why, std::string(200, 'x'));
}

TEST(Card, OfAnotherVersionIsNamed) {
  Card card = cardOn(1);
  card.version = 7;
  const Result<Card> read = Card::parse(card.bytes());
  ASSERT_FALSE(read.ok());
  EXPECT_NE(std::string(read.error().message()).find("version 7"), std::string::npos) << read.error().message();
}

TEST(Conclusion, SeveralMachinesAreServedAndMeasured) {
  const Conclusion what = conclude(std::vector<Card>{cardOn(1), cardOn(2), cardOn(1)});
  EXPECT_TRUE(what.join);
  EXPECT_TRUE(what.measure);
  EXPECT_EQ(what.machines, 2U);
  EXPECT_EQ(what.reason, "measured");
}

TEST(Conclusion, OneMachineIsNot) {
  const Conclusion what = conclude(std::vector<Card>{cardOn(1), cardOn(1)});
  EXPECT_FALSE(what.join);
  EXPECT_EQ(what.machines, 1U);
  EXPECT_EQ(what.reason, "one machine");
}

TEST(Conclusion, TheSizeOfRankZeroHolds) {
  std::vector<Card> cards = {cardOn(1), cardOn(2)};
  cards[1].leastBytes = 1;
  EXPECT_TRUE(conclude(cards).measure);
  cards[0].leastBytes = 0;  // a size like any other: everything
  const Conclusion what = conclude(cards);
  EXPECT_TRUE(what.join);
  EXPECT_FALSE(what.measure);
  EXPECT_EQ(what.leastBytes, 0U);
  EXPECT_EQ(what.reason, "BPS_NCCL_MIN_BYTES");
}

TEST(Conclusion, WithoutServersOnRankZeroOnlyAGivenSizeServes) {
  std::vector<Card> cards = {cardOn(1), cardOn(2)};
  cards[0].hasServers = false;
  EXPECT_FALSE(conclude(cards).join);
  EXPECT_EQ(conclude(cards).reason, "BPS_SERVERS is not set on rank 0");
  cards[0].leastBytes = 4096;
  EXPECT_TRUE(conclude(cards).join);
  cards[0].hasServers = true;
  cards[1].hasServers = false;  // nobody asks rank 1
  EXPECT_TRUE(conclude(cards).join);
}

TEST(Conclusion, TheFirstRankThatCannotIsTheReason) {
  std::vector<Card> cards = {cardOn(1), cardOn(2), cardOn(3)};
  cards[1].able = cards[2].able = false;
  cards[1].why = "no";
  cards[2].why = "neither";
  const Conclusion what = conclude(cards);
  EXPECT_FALSE(what.join);
  EXPECT_EQ(what.reason, "rank 1: no");
}

TEST(Conclusion, MeasuresWhereTheSmallestRankHasRoom) {
  std::vector<Card> cards = {cardOn(1), cardOn(2), cardOn(2)};
  cards[1].room = 70000;
  EXPECT_EQ(conclude(cards).room, 70000U);
}

TEST(CrossOver, IsTheSizeFromWhichOnBpsWasAlwaysQuicker) {
  using Timings = std::vector<Timing>;
  EXPECT_EQ(crossOver(Timings{{64, 1, 2}, {256, 2, 1}, {1024, 4, 2}}), 256U);
  EXPECT_EQ(crossOver(Timings{{64, 2, 1}, {256, 1, 2}, {1024, 4, 2}}), 1024U) << "quicker once by chance";
  EXPECT_EQ(crossOver(Timings{{64, 2, 1}, {256, 2, 1}}), 64U);
  EXPECT_EQ(crossOver(Timings{{64, 2, 1}, {256, 1, 2}}), kNever);
  EXPECT_EQ(crossOver(Timings{{64, 1, 1}}), kNever) << "as quick is not quicker";
  EXPECT_EQ(crossOver(Timings{}), kNever);
}

}  // namespace
}  // namespace bps::interpose
