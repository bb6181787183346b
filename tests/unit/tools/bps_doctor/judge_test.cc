// Tests the judgement of bps-doctor: facts in, findings out.
#include "tools/bps_doctor/judge/judge.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/tools/bps_doctor/surveys.h"

namespace bps::doctor {
namespace {

using test::breakWays;
using test::goodReduce;
using test::goodServer;
using test::healthySurvey;
using testing::AllOf;
using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;
using testing::IsEmpty;

auto finding(Level level, const std::string& check, const std::string& text, const std::string& fix) {
  return AllOf(Field(&Finding::level, level), Field(&Finding::check, check), Field(&Finding::text, HasSubstr(text)),
               Field(&Finding::fix, HasSubstr(fix)));
}
auto problem(const std::string& check, const std::string& text, const std::string& fix) {
  return finding(Level::kProblem, check, text, fix);
}
auto warning(const std::string& check, const std::string& text, const std::string& fix) {
  return finding(Level::kWarning, check, text, fix);
}

TEST(DoctorJudge, FindsNothingInAHealthyJob) {
  const std::vector<Finding> findings = judge(healthySurvey(3));
  EXPECT_THAT(findings, IsEmpty());
  EXPECT_EQ(exitStatus(findings), 0);
  EXPECT_FALSE(preventsReduce(findings));
}

TEST(DoctorJudge, NamesARankThatDidNotReport) {
  Survey survey = healthySurvey(2);
  survey.ranks = 3;
  EXPECT_THAT(judge(survey), ElementsAre(problem("rank", "rank 2 did not report to rank 0 within 10 s", "BPS_ROOT")));
  EXPECT_EQ(exitStatus(judge(survey)), 1);
  EXPECT_TRUE(preventsReduce(judge(survey)));
}

TEST(DoctorJudge, NamesARankThatStoppedAnswering) {
  Survey survey = healthySurvey(2);
  survey.lost.emplace(1, "connection closed");
  EXPECT_THAT(judge(survey),
              ElementsAre(problem("rank", "rank 1 stopped answering: connection closed", "its machine")));
}

TEST(DoctorJudge, ExplainsWhyAProcessWasRefused) {
  Survey survey = healthySurvey(2);
  survey.refused = {{"10.0.0.9:1", "authentication failed: the key differs"},
                    {"10.0.0.9:2", "authentication is on here and off on the other side"},
                    {"10.0.0.9:3", "protocol version 9, this side speaks 7; rebuild one side"},
                    {"10.0.0.9:4", "wrong magic: not a peer of this protocol"}};
  EXPECT_THAT(judge(survey), ElementsAre(problem("key", "10.0.0.9:1", "copy one key file to all machines"),
                                         problem("key", "10.0.0.9:2", "BPS_AUTH=off on all"),
                                         problem("version", "10.0.0.9:3", "install the same version"),
                                         problem("rank", "10.0.0.9:4", "BPS_ROOT")));
}

TEST(DoctorJudge, NamesARankOfAnotherVersion) {
  Survey survey = healthySurvey(2);
  survey.facts.at(1).version = "1.3.0";
  EXPECT_THAT(judge(survey),
              ElementsAre(problem("version", "rank 1 (host host1) has version 1.3.0, rank 0 (host host0)",
                                  "install the same version")));
}

TEST(DoctorJudge, NamesTheLimitOfDescriptorsThatIsNeeded) {
  Survey survey = healthySurvey(3);
  survey.serverNames = {"a:7700"};
  // 64 of its own, 18 for each of two machines and one server, and one control connection.
  survey.facts.at(1).nofile = 64 + 3 * 18 + 1;
  EXPECT_THAT(judge(survey), IsEmpty());
  survey.facts.at(1).nofile -= 1;
  EXPECT_THAT(judge(survey), ElementsAre(problem("nofile", "rank 1 (host host1) may open 118 descriptors",
                                                 "raise 'ulimit -n' to at least 119 before the job starts; ")));
  survey.facts.at(1).nofileHard = 118;
  EXPECT_THAT(judge(survey), ElementsAre(problem("nofile", "118", "the hard limit is 118")));
}

TEST(DoctorJudge, LowMemlockMattersOnlyWithRdmaAndWithoutTheCapability) {
  Survey survey = healthySurvey(2);
  Facts& facts = survey.facts.at(1);
  facts.memlock = 64 << 10;
  EXPECT_THAT(judge(survey), IsEmpty());
  facts.rdma = {"mlx5_0"};
  EXPECT_THAT(judge(survey), ElementsAre(problem("memlock", "mlx5_0 and may lock only 64 KiB", "ulimit -l unlimited")));
  facts.mayLock = true;
  EXPECT_THAT(judge(survey), IsEmpty());
}

TEST(DoctorJudge, SharedMemoryMattersOnlyForSeveralRanksOfAMachine) {
  Survey survey = healthySurvey(2);
  survey.facts.at(0).shmFree = survey.facts.at(1).shmFree = 1 << 20;
  EXPECT_THAT(judge(survey), IsEmpty());
  survey.facts.at(1).hostId = survey.facts.at(0).hostId;
  survey.ways.clear();  // ranks of a machine do not test each other
  EXPECT_THAT(judge(survey), ElementsAre(problem("shm", "host0 has 1 MiB free; 2 ranks need", "--shm-size")));
}

TEST(DoctorJudge, WarnsOfAClockThatDiffers) {
  Survey survey = healthySurvey(3);
  survey.clocks = {{1, 0.5}, {2, -90}};
  EXPECT_THAT(judge(survey), ElementsAre(warning("clock", "rank 2 (host host2) is 90.0 s behind", "chrony")));
  EXPECT_EQ(exitStatus(judge(survey)), 0);
}

TEST(DoctorJudge, PassesOnWarningsAboutTheEnvironment) {
  Survey survey = healthySurvey(2);
  survey.facts.at(1).warnings = {"BPS_SERVER is not a variable of bps"};
  EXPECT_THAT(judge(survey), ElementsAre(warning("environment", "rank 1 (host host1): BPS_SERVER", "environment.md")));
}

TEST(DoctorJudge, WarnsThatASingleProcessTestsNothing) {
  EXPECT_THAT(judge(healthySurvey(1)), ElementsAre(warning("rank", "single process", "bps-run -n 4 bps-doctor")));
}

TEST(DoctorJudge, NamesEachFaultOfAServerOnce) {
  Survey survey = healthySurvey(2);
  survey.serverNames = {"a:7700", "b:7700"};
  for (const int rank : {0, 1}) {
    survey.servers.push_back(goodServer("a:7700", rank));
    survey.servers.push_back(goodServer("b:7700", rank));
    survey.servers.back().error = "cannot connect to b:7700: Connection refused";
  }
  EXPECT_THAT(judge(survey), ElementsAre(problem("server",
                                                 "server b:7700 is not usable from rank 0 (host host0) and 1 "
                                                 "more",
                                                 "start bps-server")));
  EXPECT_FALSE(preventsReduce(judge(survey)));
  survey.servers[1].error = "it answers, but its data connections do not work: no answer";
  survey.servers[3].error = "authentication failed: the key differs";
  EXPECT_THAT(judge(survey), testing::UnorderedElementsAre(
                                 problem("port", "server b:7700 is not usable from rank 0", "--data-ports"),
                                 problem("key", "server b:7700 is not usable from rank 1", "copy one key file")));
}

TEST(DoctorJudge, NamesAServerOfAnotherVersionOnce) {
  Survey survey = healthySurvey(2);
  survey.serverNames = {"a:7700"};
  for (const int rank : {0, 1}) {
    survey.servers.push_back(goodServer("a:7700", rank));
    survey.servers.back().version = "1.0.0";
  }
  EXPECT_THAT(judge(survey), ElementsAre(problem("version", "server a:7700 has version 1.0.0", "same version")));
}

TEST(DoctorJudge, KeepsTheMostSevereExitStatus) {
  EXPECT_EQ(exitStatus({{Level::kProblem, "a", "", ""}, {Level::kWarning, "b", "", ""}}), 1);
  EXPECT_EQ(exitStatus({{Level::kWarning, "b", "", ""}}), 0);
}

// 2(n-1)/n of the buffer at 10 Gbit/s.
TEST(DoctorTime, ExpectsTheTimeOfThePlan) {
  Survey survey = healthySurvey(4);
  survey.reduce = goodReduce(4, 1'000'000, 0.001);
  EXPECT_NEAR(expectedTime(survey).seconds, 1.5 * 1e6 / 1.25e9, 1e-9);
  EXPECT_FALSE(expectedTime(survey).measured);
  survey.facts.at(2).bandwidth = 1;  // the slowest machine counts
  EXPECT_NEAR(expectedTime(survey).seconds, 1.5 * 1e6 / 0.125e9, 1e-9);
  survey.facts.at(1).nics[0].mbps = 0;
  EXPECT_EQ(expectedTime(survey).seconds, 0);
  survey.reduce.bytesPerSecond = 1e9;
  EXPECT_NEAR(expectedTime(survey).seconds, 1.5 * 1e6 / 1e9, 1e-9);
  EXPECT_TRUE(expectedTime(survey).measured);
}

TEST(DoctorTime, TakesTheRateOfAnRdmaDevice) {
  Survey survey = healthySurvey(2);
  survey.reduce = goodReduce(2, 1'000'000, 0.001);
  for (auto& [rank, facts] : survey.facts) {
    facts.rdma = {"mlx5_0"};
    facts.rdmaMbps = 100'000;
  }
  EXPECT_NEAR(expectedTime(survey).seconds, 1e6 / 12.5e9, 1e-9);
}

TEST(DoctorTime, WarnsOfASlowAllReduce) {
  Survey survey = healthySurvey(4);
  survey.reduce = goodReduce(4, 1'000'000, 0.0023);
  EXPECT_THAT(judgeTime(survey), IsEmpty());
  survey.reduce.seconds = 0.0025;
  EXPECT_THAT(judgeTime(survey),
              ElementsAre(warning("time", "took 2.50 ms; the rates of the NICs allow 1.20 ms", "bps-topo probe")));
}

TEST(DoctorTime, ReportsAnAllReduceThatFailed) {
  Survey survey = healthySurvey(2);
  EXPECT_THAT(judgeTime(survey), IsEmpty());
  survey.reduce = goodReduce(2, 1000, 0);
  survey.reduce.error = "it did not end in time";
  EXPECT_THAT(judgeTime(survey), ElementsAre(problem("all-reduce", "it did not end in time", "diagnosis.md")));
}

TEST(DoctorTime, ReportsAServerThatTheAllReduceDidNotUse) {
  Survey survey = healthySurvey(2);
  survey.serverNames = {"a:7700"};
  survey.servers = {goodServer("a:7700", 0)};
  survey.reduce = goodReduce(2, 1'000'000, 0.001);
  EXPECT_THAT(judgeTime(survey), ElementsAre(problem("server", "with 0 of 1 servers", "log of rank 0")));
  survey.servers[0].error = "refused";  // has a finding of its own
  EXPECT_THAT(judgeTime(survey), IsEmpty());
}

}  // namespace
}  // namespace bps::doctor
