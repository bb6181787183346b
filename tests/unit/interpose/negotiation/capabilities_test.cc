// Tests the negotiation of an NCCL communicator: the decision that its ranks derive from their capabilities and
// measured times.
#include "src/interpose/negotiation/capabilities.h"

#include <gtest/gtest.h>

#include <string>

namespace bps::interpose {
namespace {

Capabilities capabilitiesOn(uint64_t machine) {
  Capabilities capabilities;
  capabilities.machine = machine;
  capabilities.hasServers = true;
  capabilities.maxProbeBytes = 1U << 20;
  return capabilities;
}

TEST(Capabilities, EncodingRoundTrips) {
  Capabilities capabilities = capabilitiesOn(0x1234567890abcdef);
  capabilities.canServe = false;
  capabilities.minBytes = 4096;
  capabilities.gpuGroup = 77;
  capabilities.allowsAnyOrder = true;
  capabilities.why = "BPS_TIMEOUT is \"soon\"";
  const auto bytes = capabilities.bytes();
  EXPECT_EQ(bytes.size(), Capabilities::kBytes);
  const Capabilities read = std::move(Capabilities::parse(bytes)).value();
  EXPECT_EQ(read.machine, capabilities.machine);
  EXPECT_FALSE(read.canServe);
  EXPECT_TRUE(read.hasServers);
  EXPECT_EQ(read.minBytes, 4096U);
  EXPECT_EQ(read.maxProbeBytes, capabilities.maxProbeBytes);
  EXPECT_EQ(read.gpuGroup, 77U);
  EXPECT_TRUE(read.allowsAnyOrder);
  EXPECT_EQ(read.why, capabilities.why);
}

TEST(Capabilities, EncodingTruncatesLongReason) {
  Capabilities capabilities = capabilitiesOn(1);
  capabilities.why = std::string(1000, 'x');
  EXPECT_EQ(std::move(Capabilities::parse(capabilities.bytes())).value().why, std::string(200, 'x'));
}

TEST(Capabilities, OtherVersionIsRefusedByNumber) {
  Capabilities capabilities = capabilitiesOn(1);
  capabilities.version = 7;
  const Result<Capabilities> read = Capabilities::parse(capabilities.bytes());
  ASSERT_FALSE(read.ok());
  EXPECT_NE(std::string(read.error().message()).find("version 7"), std::string::npos) << read.error().message();
}

TEST(NegotiationResult, SeveralMachinesAreServedAndMeasured) {
  const NegotiationResult result =
      concludeNegotiation(std::vector<Capabilities>{capabilitiesOn(1), capabilitiesOn(2), capabilitiesOn(1)});
  EXPECT_TRUE(result.join);
  EXPECT_TRUE(result.measure);
  EXPECT_EQ(result.machines, 2U);
  EXPECT_EQ(result.reason, "measured");
}

TEST(NegotiationResult, OneMachineIsLeftToNccl) {
  const NegotiationResult result = concludeNegotiation(std::vector<Capabilities>{capabilitiesOn(1), capabilitiesOn(1)});
  EXPECT_FALSE(result.join);
  EXPECT_EQ(result.machines, 1U);
  EXPECT_EQ(result.reason, "one machine");
}

TEST(NegotiationResult, MinBytesOfRankZeroApply) {
  std::vector<Capabilities> allCapabilities = {capabilitiesOn(1), capabilitiesOn(2)};
  allCapabilities[1].minBytes = 1;
  EXPECT_TRUE(concludeNegotiation(allCapabilities).measure);
  allCapabilities[0].minBytes = 0;  // 0 means that bps serves calls of every size
  const NegotiationResult result = concludeNegotiation(allCapabilities);
  EXPECT_TRUE(result.join);
  EXPECT_FALSE(result.measure);
  EXPECT_EQ(result.minBytes, 0U);
  EXPECT_EQ(result.reason, "BPS_NCCL_MIN_BYTES");
}

TEST(NegotiationResult, WithoutServersOnRankZeroMinBytesIsRequired) {
  std::vector<Capabilities> allCapabilities = {capabilitiesOn(1), capabilitiesOn(2)};
  allCapabilities[0].hasServers = false;
  EXPECT_FALSE(concludeNegotiation(allCapabilities).join);
  EXPECT_EQ(concludeNegotiation(allCapabilities).reason, "BPS_SERVERS is not set on rank 0");
  allCapabilities[0].minBytes = 4096;
  EXPECT_TRUE(concludeNegotiation(allCapabilities).join);
  allCapabilities[0].hasServers = true;
  allCapabilities[1].hasServers = false;  // only the setting of rank 0 counts
  EXPECT_TRUE(concludeNegotiation(allCapabilities).join);
}

TEST(NegotiationResult, FirstRankThatCannotServeIsTheReason) {
  std::vector<Capabilities> allCapabilities = {capabilitiesOn(1), capabilitiesOn(2), capabilitiesOn(3)};
  allCapabilities[1].canServe = allCapabilities[2].canServe = false;
  allCapabilities[1].why = "no";
  allCapabilities[2].why = "neither";
  const NegotiationResult result = concludeNegotiation(allCapabilities);
  EXPECT_FALSE(result.join);
  EXPECT_EQ(result.reason, "rank 1: no");
}

TEST(NegotiationResult, ProbeSizeIsTheSmallestOfAllRanks) {
  std::vector<Capabilities> allCapabilities = {capabilitiesOn(1), capabilitiesOn(2), capabilitiesOn(2)};
  allCapabilities[1].maxProbeBytes = 70000;
  EXPECT_EQ(concludeNegotiation(allCapabilities).maxProbeBytes, 70000U);
}

TEST(CrossOver, IsTheSizeFromWhichBpsIsAlwaysFaster) {
  using Timings = std::vector<Timing>;
  EXPECT_EQ(crossOver(Timings{{64, 1, 2}, {256, 2, 1}, {1024, 4, 2}}), 256U);
  EXPECT_EQ(crossOver(Timings{{64, 2, 1}, {256, 1, 2}, {1024, 4, 2}}), 1024U) << "faster once by chance";
  EXPECT_EQ(crossOver(Timings{{64, 2, 1}, {256, 2, 1}}), 64U);
  EXPECT_EQ(crossOver(Timings{{64, 2, 1}, {256, 1, 2}}), kServeNone);
  EXPECT_EQ(crossOver(Timings{{64, 1, 1}}), kServeNone) << "equally fast is not faster";
  EXPECT_EQ(crossOver(Timings{}), kServeNone);
}

}  // namespace
}  // namespace bps::interpose
