// Tests what bps-doctor concludes from the tested ways between ranks.
#include "tools/bps_doctor/judge/judge_network.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/tools/bps_doctor/surveys.h"

namespace bps::doctor {
namespace {

using test::breakWays;
using test::healthySurvey;
using testing::HasSubstr;

std::vector<Finding> judgeNetworkOf(const Survey& survey) {
  std::vector<Finding> findings;
  judgeNetwork(survey, findings);
  return findings;
}

Finding onlyFinding(const Survey& survey) {
  const std::vector<Finding> findings = judgeNetworkOf(survey);
  EXPECT_EQ(findings.size(), 1U);
  return findings.empty() ? Finding() : findings.front();
}

WayResult& wayTo(Survey& survey, int from, int to) {
  for (WayResult& way : survey.ways)
    if (way.from == from && way.to == to) return way;
  return survey.ways.front();
}

TEST(DoctorNetwork, NamesBothEndsOfABlockedPortAndTheRangeToOpen) {
  Survey survey = healthySurvey(3);
  survey.portRange = "7800-7899";
  WayResult& way = wayTo(survey, 2, 1);
  way.way = Way::kSilent;
  way.error = "no answer";
  const Finding finding = onlyFinding(survey);
  EXPECT_EQ(finding.check, "port");
  EXPECT_EQ(finding.text,
            "rank 2 (host host2) cannot reach the data port of rank 1 (host host1) at 10.0.0.2:7000 (eth0): no answer "
            "within 3 s");
  EXPECT_THAT(finding.fix, HasSubstr("a firewall seems to drop packets: open the TCP ports of BPS_PORT_RANGE (now "
                                     "7800-7899)"));
}

TEST(DoctorNetwork, TellsARejectedConnectionFromAMissingRoute) {
  Survey survey = healthySurvey(3);
  wayTo(survey, 0, 1).way = Way::kRefused;
  EXPECT_THAT(onlyFinding(survey).fix, HasSubstr("a firewall seems to reject connections"));
  wayTo(survey, 0, 1).way = Way::kUnreachable;
  EXPECT_THAT(onlyFinding(survey).fix, HasSubstr("there is no route"));
}

TEST(DoctorNetwork, NamesTheSenderWhoseLargePacketsGetLost) {
  Survey survey = healthySurvey(2);
  survey.facts.at(0).nics[0].mtu = 9000;
  WayResult& way = wayTo(survey, 0, 1);
  way.way = Way::kNoLarge;
  way.outStuck = true;
  Finding finding = onlyFinding(survey);
  EXPECT_EQ(finding.check, "mtu");
  EXPECT_THAT(finding.text, HasSubstr("small packets from rank 0 (host host0) to rank 1 (host host1) pass"));
  EXPECT_THAT(finding.fix, HasSubstr("eth0 9000 of rank 0; eth0 1500 of rank 1"));
  way.outStuck = false;
  finding = onlyFinding(survey);
  EXPECT_THAT(finding.text, HasSubstr("small packets from rank 1 (host host1) to rank 0 (host host0) pass"));
}

TEST(DoctorNetwork, NamesTheInterfaceThatAllOtherMachinesReach) {
  Survey survey = healthySurvey(3);
  breakWays(survey, 1, "eth0", Way::kUnreachable);
  const Finding finding = onlyFinding(survey);
  EXPECT_EQ(finding.check, "nic");
  EXPECT_EQ(finding.level, Level::kProblem);
  EXPECT_THAT(finding.text,
              HasSubstr("rank 1 (host host1) uses the interface eth0 (10.0.0.2), which no other machine"));
  EXPECT_EQ(finding.fix, "set BPS_SOCKET_IFNAME=eth1 on host host1");
}

TEST(DoctorNetwork, BlamesPortsIfNoInterfaceIsReached) {
  Survey survey = healthySurvey(2);
  breakWays(survey, 1, "eth0", Way::kSilent);
  breakWays(survey, 1, "eth1", Way::kSilent);
  EXPECT_EQ(onlyFinding(survey).check, "port");
}

TEST(DoctorNetwork, AnUnusedInterfaceThatNobodyReachesIsNoFault) {
  Survey survey = healthySurvey(3);
  breakWays(survey, 1, "eth1", Way::kSilent);
  EXPECT_TRUE(judgeNetworkOf(survey).empty());
}

TEST(DoctorNetwork, WarnsIfAFurtherInterfaceInUseIsNotReached) {
  Survey survey = healthySurvey(2);
  survey.facts.at(1).nics[1].chosen = true;
  breakWays(survey, 1, "eth1", Way::kSilent);
  const Finding finding = onlyFinding(survey);
  EXPECT_EQ(finding.level, Level::kWarning);
  EXPECT_THAT(finding.fix, HasSubstr("let BPS_SOCKET_IFNAME leave out eth1"));
}

TEST(DoctorNetwork, WarnsOfAFasterInterface) {
  Survey survey = healthySurvey(2);
  survey.facts.at(1).nics[1].mbps = 25000;
  const Finding finding = onlyFinding(survey);
  EXPECT_EQ(finding.level, Level::kWarning);
  EXPECT_THAT(finding.text,
              HasSubstr("eth0 (10 Gbit/s); all other machines also reach eth1, which is faster (25 Gbit/s)"));
}

TEST(DoctorNetwork, ALoopbackInterfaceServesOneHostOnly) {
  Survey survey = healthySurvey(2);
  for (auto& [rank, facts] : survey.facts) facts.nics = {{"lo", "127.0.0.1", 7000, 0, 65536, true}};
  survey.ways.clear();
  EXPECT_EQ(judgeNetworkOf(survey).size(), 2U);
  survey.facts.at(1).host = survey.facts.at(0).host;
  EXPECT_TRUE(judgeNetworkOf(survey).empty());
}

TEST(DoctorNetwork, ReportsInterfacesThatCannotBeUsed) {
  Survey survey = healthySurvey(2);
  survey.facts.at(1).nicError = "\"ib\" selects no interface";
  survey.facts.at(0).listenErrors = {"eth0: no free port"};
  const std::vector<Finding> findings = judgeNetworkOf(survey);
  ASSERT_EQ(findings.size(), 2U);
  EXPECT_EQ(findings[0].text, "rank 0 (host host0) cannot listen on eth0: no free port");
  EXPECT_EQ(findings[0].check, "port");
  EXPECT_EQ(findings[1].text, "rank 1 (host host1): \"ib\" selects no interface");
  EXPECT_EQ(findings[1].check, "nic");
}

// Another rank's report may contain anything.
TEST(DoctorNetwork, IgnoresWaysOfUnknownRanksAndInterfaces) {
  Survey survey = healthySurvey(3);
  WayResult way;
  way.from = 7, way.to = -1, way.way = static_cast<Way>(99);
  survey.ways.push_back(way);
  way.from = 0, way.to = 1, way.nic = "nosuch";
  survey.ways.push_back(way);
  EXPECT_TRUE(judgeNetworkOf(survey).empty());
  wayTo(survey, 0, 1).way = static_cast<Way>(99);
  EXPECT_EQ(onlyFinding(survey).check, "port");
}

}  // namespace
}  // namespace bps::doctor
