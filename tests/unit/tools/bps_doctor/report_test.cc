// Tests the text and the JSON that bps-doctor prints.
#include "tools/bps_doctor/report/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/tools/bps_doctor/surveys.h"

namespace bps::doctor {
namespace {

using test::goodReduce;
using test::healthySurvey;
using testing::ContainsRegex;
using testing::EndsWith;
using testing::HasSubstr;

TEST(DoctorReport, HasARowForEachMachine) {
  Survey survey = healthySurvey(4);
  for (const int rank : {1, 3}) {
    survey.facts.at(rank).hostId = survey.facts.at(0).hostId;
    survey.facts.at(rank).nofile = 100;
  }
  const std::string text = reportText(survey, {});
  EXPECT_THAT(text, HasSubstr("4 of 4 ranks on 2 machines"));
  EXPECT_THAT(text,
              ContainsRegex(" 0-1,3 host0 +eth0 +10.0.0.1 +10 +1500 +20-20 +- +100 +unlimited +1024 MiB +1.2.3\n"));
  EXPECT_THAT(text, ContainsRegex(" 2 host2 .* 4096 "));
  EXPECT_THAT(text, EndsWith("all-reduce: not run\nverdict: all right\n"));
}

TEST(DoctorReport, ShowsEachFindingWithItsRemedyAndCountsThem) {
  const std::vector<Finding> findings = {{Level::kProblem, "nofile", "rank 1 may open 10 descriptors", "raise it"},
                                         {Level::kWarning, "clock", "the clock differs", "set it"}};
  const std::string text = reportText(healthySurvey(2), findings);
  EXPECT_THAT(text, HasSubstr("PROBLEM nofile: rank 1 may open 10 descriptors\n    fix: raise it\n"));
  EXPECT_THAT(text, HasSubstr("WARNING clock: the clock differs\n    fix: set it\n"));
  EXPECT_THAT(text, EndsWith("verdict: 1 problem, 1 warning\n"));
}

TEST(DoctorReport, ShortensManyFindingsOfOneKind) {
  const std::vector<Finding> findings(20, {Level::kProblem, "port", "blocked", "open it"});
  const std::string text = findingsText(findings);
  EXPECT_THAT(text, HasSubstr("port: 12 more of this kind (--json lists them)\n"));
  EXPECT_EQ(nlohmann::json::parse(reportJson(healthySurvey(2), findings))["findings"].size(), 20U);
}

TEST(DoctorReport, ComparesTheMeasuredTimeWithTheExpectedOne) {
  Survey survey = healthySurvey(4);
  survey.reduce = goodReduce(4, 1'000'000, 0.002);
  EXPECT_THAT(reportText(survey, {}), HasSubstr("all-reduce of 1000000 bytes: 2.000 ms over 4 machines and 0 servers; "
                                                "the rates of the NICs allow 1.200 ms\n"));
  survey.facts.at(0).nics[0].mbps = 0;
  EXPECT_THAT(reportText(survey, {}), HasSubstr("no expected time"));
}

TEST(DoctorReport, JsonHasAllParts) {
  Survey survey = healthySurvey(2);
  survey.clocks = {{1, 0.25}};
  survey.reduce = goodReduce(2, 1000, 0.5);
  const auto json = nlohmann::json::parse(reportJson(survey, {{Level::kProblem, "mtu", "lost \xff", "set it"}}));
  EXPECT_EQ(json["exit_status"], 1);
  EXPECT_EQ(json["findings"][0]["level"], "PROBLEM");
  EXPECT_EQ(json["facts"][1]["clock_ahead_seconds"], 0.25);
  EXPECT_EQ(json["ways"].size(), 4U);
  EXPECT_EQ(json["ways"][0]["way"], "good");
  EXPECT_EQ(json["all_reduce"]["seconds"], 0.5);
}

}  // namespace
}  // namespace bps::doctor
