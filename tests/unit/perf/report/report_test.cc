#include "perf/report/report.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "perf/report/json.h"

namespace bps::perf {
namespace {

using testing::HasSubstr;
using testing::Not;

Row exampleRow() {
  Row row{.bytes = 536870912, .count = 134217728, .type = "float", .op = "sum", .outOfPlace = {}, .inPlace = {}};
  row.outOfPlace = {.micros = 60591, .algbw = 8.86, .busbw = 13.29, .checked = true, .wrong = 0, .iterations = {}};
  row.inPlace = {.micros = 61371, .algbw = 8.75, .busbw = 13.12, .checked = true, .wrong = 0, .iterations = {}};
  return row;
}

TEST(Report, NumbersFitTheirColumn) {
  EXPECT_EQ(floatText(1.005, 7), "   1.00");
  EXPECT_EQ(floatText(9999.994, 7), "9999.99");
  EXPECT_EQ(floatText(12345.67, 7), "12345.7");
  EXPECT_EQ(floatText(123456.7, 7), " 123457");
  EXPECT_EQ(floatText(1e7, 7), "1.0e+07");
  EXPECT_EQ(floatText(0, 6), "  0.00");
}

TEST(Report, RowHasTheFormatOfNcclTests) {
  EXPECT_EQ(rowText({}, exampleRow()),
            "   536870912     134217728     float     sum      -1  60591.0    8.86   13.29       0  61371.0    8.75   "
            "13.12       0\n");
  Row unchecked = exampleRow();
  unchecked.inPlace.checked = false;
  EXPECT_THAT(rowText({}, unchecked), HasSubstr("13.12    N/A\n"));
}

TEST(Report, ColumnsStandOverTheirNumbers) {
  Options options;
  for (const int per : {0, 1}) {
    for (const int stamps : {0, 1}) {
      options.perIteration = per;
      options.timestamps = stamps;
      const std::string columns = columnsText(options);
      const size_t end = columns.find('\n', columns.find('\n') + 1);
      const size_t start = columns.find('\n') + 1;
      EXPECT_EQ(end - start, rowText(options, exampleRow()).size() - 1);
    }
  }
}

// The expected lines are those that nccl-tests 2.19.6 prints.
TEST(Report, ColumnsHaveTheFormatOfNcclTests) {
  EXPECT_EQ(
      columnsText({}),
      "#                                                              out-of-place                       in-place   "
      "       \n"
      "#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   "
      "busbw  #wrong\n"
      "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  "
      "(GB/s)        \n");
}

TEST(Report, NamesThePathOfASize) {
  JobFacts facts;
  facts.description = R"({"machines": 3, "singleOwnerBytes": 4096, "chunkBytes": 65536})";
  EXPECT_THAT(pathText(facts, 4096), HasSubstr("single owner"));
  EXPECT_THAT(pathText(facts, 4097), HasSubstr("chunks of at most 65536 bytes"));
  facts.description = R"({"machines": 1, "singleOwnerBytes": 4096, "chunkBytes": 65536})";
  EXPECT_EQ(pathText(facts, 4096), "shared memory");
}

TEST(Report, HeaderSaysWhatIsTimed) {
  Options options;
  options.blocking = 2;
  options.perIteration = 1;
  options.skipIterations = 3;
  const std::string header = headerText(options, {});
  EXPECT_THAT(header, HasSubstr("# Blocking Enabled: wait after each call (also of a group), no barrier\n"));
  EXPECT_THAT(header, HasSubstr("# Per-Iteration Report: "));
  EXPECT_THAT(header, HasSubstr("without the first 3\n"));
}

TEST(Report, HeaderExplainsASingleRank) {
  JobFacts facts;
  facts.ranks = 1;
  facts.description = R"({"machines": 1, "servers": 0})";
  EXPECT_THAT(headerText({}, facts), HasSubstr("# one rank: no network, GB/s are those of a copy"));
  EXPECT_THAT(headerText({}, facts), Not(HasSubstr("busbw")));
  facts.ranks = 2;
  facts.description = R"({"machines": 2, "servers": 1})";
  EXPECT_THAT(headerText({}, facts), Not(HasSubstr("one rank")));
  EXPECT_THAT(headerText({}, facts), HasSubstr("NIC's rate: 1 server carries part of the traffic\n"));
}

TEST(Report, FooterSummarizesTheRun) {
  EXPECT_THAT(footerText(0, 13.2063, 0),
              HasSubstr("# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 13.2063 \n"));
  EXPECT_THAT(footerText(2, 10, 11), HasSubstr(": 2 FAILED\n# Avg bus bandwidth    : 10 OK\n"));
  EXPECT_THAT(footerText(0, 9, 11), HasSubstr(": 9 FAILED\n"));
}

TEST(Report, PrintsTheIdealTime) {
  EXPECT_DOUBLE_EQ(idealSecondsPerByte(4, 0, 1), 1.5);
  EXPECT_DOUBLE_EQ(idealSecondsPerByte(4, 4, 1), 1.0);
  EXPECT_DOUBLE_EQ(idealSecondsPerByte(4, 9, 1), 1.0);
  EXPECT_DOUBLE_EQ(idealSecondsPerByte(2, 1, 2), 0.5);
  EXPECT_DOUBLE_EQ(idealSecondsPerByte(1, 3, 1), 0);
}

TEST(Report, ComputesIterationStatistics) {
  const IterationTimes times = iterationTimes({4, 2, 6, 8});
  EXPECT_EQ(times.least, 2);
  EXPECT_EQ(times.most, 8);
  EXPECT_EQ(times.p50, 4);
  EXPECT_EQ(times.p99, 8);
  EXPECT_DOUBLE_EQ(times.mean, 5);
  EXPECT_NEAR(times.deviation, 2.2360680, 1e-6);
  EXPECT_EQ(times.micros.front(), 4);
}

TEST(Report, WritesJsonOfNcclTests) {
  JsonReport report;
  report.rows.push_back(exampleRow());
  report.environment = {{"BPS_RANK", "0"}};
  report.facts.description = R"({"machines": 3})";
  const auto json = nlohmann::json::parse(jsonText({}, report));
  EXPECT_EQ(json["version"], 3);
  EXPECT_EQ(json["results"][0]["out_of_place"]["nwrong"], 0);
  EXPECT_EQ(json["results"][0]["root"].get<std::string>().find_first_not_of(' '), 4U);
  EXPECT_EQ(json["out_of_bounds"]["okay"], "true");
  EXPECT_EQ(json["average_bus_bandwidth"]["okay"], "unchecked");
  EXPECT_EQ(json["env"][0], "BPS_RANK=0");
  EXPECT_EQ(json["bps"]["machines"], 3);
}

}  // namespace
}  // namespace bps::perf
