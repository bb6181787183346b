// Tests what bps-topo fabric detect concludes from the addresses that answer.
#include "tools/bps_topo/fabric/detect.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/fabric/fabric_place.h"
#include "tools/bps_topo/fabric/neighbours.h"

namespace bps {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Address ip(const std::string& text) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  EXPECT_EQ(inet_pton(AF_INET, text.c_str(), &address.sin_addr), 1) << text;
  return {reinterpret_cast<const sockaddr*>(&address), sizeof(address)};
}

LevelSurvey level(const std::string& name, const std::string& own, const std::vector<std::string>& neighbours,
                  unsigned prefixBits = 24) {
  LevelSurvey survey{{name, ip(own), prefixBits}, {}};
  for (const std::string& each : neighbours) survey.neighbours.push_back(ip(each));
  return survey;
}

FabricProposal propose(const std::vector<LevelSurvey>& levels) {
  auto proposal = proposeFabric(levels);
  EXPECT_TRUE(proposal.ok()) << proposal.error().message();
  return proposal.ok() ? std::move(proposal).value() : FabricProposal();
}

std::string refusal(const std::vector<LevelSurvey>& levels) {
  auto proposal = proposeFabric(levels);
  return proposal.ok() ? "no error" : proposal.error().message();
}

std::vector<LevelSurvey> machine120() {
  return {level("eth0", "10.0.3.2", {"10.0.3.3", "10.0.3.1"}), level("eth1", "10.1.8.3", {"10.1.8.1", "10.1.8.2"}),
          level("ib0", "192.168.0.1", {"192.168.0.2", "192.168.0.3"})};
}

TEST(FabricDetect, ProposesTheShapeAndTheDigitsThatTheAddressesGive) {
  const FabricProposal proposal = propose(machine120());
  EXPECT_EQ(proposal.shape.text(), "BCube(3,3)");
  EXPECT_EQ(proposal.shape.addressText(proposal.address), "120");
  EXPECT_FALSE(proposal.needsFile);
  EXPECT_EQ(proposalText(proposal),
            "\nThis machine is 120 of BCube(3,3), if all 27 machines find the same shape.\n"
            "export BPS_FABRIC=bcube:n=3,k=3,relay=7799\n"
            "export BPS_SOCKET_IFNAME=eth0,eth1,ib0\n");
}

TEST(FabricDetect, BpsAcceptsTheProposal) {
  std::vector<Interface> interfaces;
  for (const LevelSurvey& each : machine120()) interfaces.push_back(each.own);
  const FabricProposal proposal = propose(machine120());
  const FabricSpec spec = parseFabric("bcube:n=3,k=3,relay=7799").value().value();
  auto place = findPlace(spec, interfaces, proposal.interfaces);
  ASSERT_TRUE(place.ok()) << place.error().message();
  EXPECT_EQ(std::move(place).value().address, proposal.address);
}

TEST(FabricDetect, AsksForAnAddressFileIfAddressesDoNotEndInOneToN) {
  const FabricProposal proposal = propose(
      {level("eth0", "10.0.0.20", {"10.0.0.9", "10.0.0.100"}), level("eth1", "10.1.0.1", {"10.1.0.2", "10.1.0.3"})});
  EXPECT_TRUE(proposal.needsFile);
  EXPECT_THAT(proposalText(proposal), HasSubstr("The IP addresses of a level do not end in 1 to 3, so an address file "
                                                "must list the machines. The line of this machine:\n"
                                                "10 10.0.0.20 10.1.0.1\n"
                                                "export BPS_FABRIC=bcube:n=3,k=2,addresses=FILE,relay=7799\n"));
}

TEST(FabricDetect, DigitsAboveNineAreSeparated) {
  std::vector<LevelSurvey> levels = {level("a", "10.0.0.12", {}), level("b", "10.1.0.1", {})};
  for (int i = 1; i <= 12; ++i) {
    if (i != 12) levels[0].neighbours.push_back(ip("10.0.0." + std::to_string(i)));
    if (i != 1) levels[1].neighbours.push_back(ip("10.1.0." + std::to_string(i)));
  }
  EXPECT_EQ(propose(levels).addressLine, "11.0 10.0.0.12 10.1.0.1");
}

TEST(FabricDetect, RefusesALevelOnWhichNobodyAnswers) {
  EXPECT_THAT(refusal({level("eth0", "10.0.0.1", {"10.0.0.2"}), level("eth1", "10.1.0.1", {})}),
              HasSubstr("no BCube: level 1: no other machine answers in the network of eth1 (10.1.0.1/24)"));
}

TEST(FabricDetect, RefusesLevelsWithDifferentNumbersOfNeighbours) {
  EXPECT_THAT(refusal({level("eth0", "10.0.0.1", {"10.0.0.2"}), level("eth1", "10.1.0.1", {"10.1.0.2"}),
                       level("eth2", "10.2.0.1", {"10.2.0.2", "10.2.0.3"})}),
              HasSubstr("no BCube: level 0 (eth0) has 1 neighbours, but level 2 (eth2) has 2"));
}

TEST(FabricDetect, RefusesTwoLevelsInOneNetwork) {
  EXPECT_THAT(refusal({level("eth0", "10.0.0.1", {"10.0.0.2"}), level("eth1", "10.0.0.3", {"10.0.0.4"})}),
              HasSubstr("no BCube: eth0 (10.0.0.1/24) and eth1 (10.0.0.3/24) are in the same network"));
  EXPECT_THAT(refusal({level("eth0", "10.0.0.1", {"10.0.0.2"}), level("eth1", "10.0.1.3", {"10.0.1.4"}, 16)}),
              HasSubstr("are in the same network"))
      << "a network that contains the other";
}

TEST(FabricDetect, RefusesFewerThanTwoInterfaces) {
  EXPECT_THAT(refusal({}), HasSubstr("there is none"));
  EXPECT_THAT(refusal({level("eth0", "10.0.0.1", {"10.0.0.2"})}), HasSubstr("there is only eth0 (10.0.0.1/24)"));
}

TEST(FabricDetect, RefusesMoreLevelsThanBpsHas) {
  std::vector<LevelSurvey> levels;
  for (int i = 0; i < 9; ++i) {
    const std::string net = "10." + std::to_string(i) + ".0.";
    levels.push_back(level("eth" + std::to_string(i), net + "1", {net + "2"}));
  }
  EXPECT_THAT(refusal(levels), HasSubstr("no BCube that bps can use: k=9: must be 1 to 8"));
}

TEST(FabricDetect, ShowsWhoAnswers) {
  EXPECT_EQ(surveyText({level("eth0", "10.0.0.1", {"10.0.0.11", "10.0.0.2"}), level("eth1", "10.1.0.1", {})}),
            "level  interface    address             neighbours that answer\n"
            "0      eth0         10.0.0.1/24         10.0.0.2 10.0.0.11\n"
            "1      eth1         10.1.0.1/24         none\n");
}

std::vector<std::string> candidateHosts(const std::string& own, unsigned prefixBits) {
  std::vector<std::string> hosts;
  for (const Address& each : candidates({"eth0", ip(own), prefixBits})) hosts.push_back(each.host());
  return hosts;
}

TEST(FabricDetect, AsksTheAddressesOfTheNetworkThatDifferInTheLastNumber) {
  EXPECT_THAT(candidateHosts("10.0.0.6", 30), ElementsAre("10.0.0.5"));
  EXPECT_THAT(candidateHosts("10.0.0.6", 31), ElementsAre("10.0.0.7"));
  EXPECT_THAT(candidateHosts("10.0.0.6", 29), ElementsAre("10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5"));
  EXPECT_THAT(candidateHosts("10.0.0.6", 32), ElementsAre());
  EXPECT_EQ(candidateHosts("10.0.0.6", 24).size(), 253U);
  EXPECT_EQ(candidateHosts("10.0.0.6", 16).size(), 253U);
}

}  // namespace
}  // namespace bps
