#include "perf/report/files.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>

namespace bps::perf {
namespace {

Row row(uint64_t bytes, double busbw) {
  Row made{.bytes = bytes, .count = bytes / 4, .type = "float", .op = "sum", .outOfPlace = {}, .inPlace = {}};
  made.outOfPlace = {.micros = 2.5, .algbw = busbw / 2, .busbw = busbw, .checked = true, .wrong = 3, .iterations = {}};
  made.inPlace = {.micros = 5, .algbw = 1, .busbw = 2 * busbw, .checked = false, .wrong = 0, .iterations = {}};
  return made;
}

size_t countOf(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

class FilesTest : public ::testing::Test {
 protected:
  FilesTest() { std::filesystem::create_directory(folder_); }
  ~FilesTest() override { std::filesystem::remove_all(folder_); }
  std::string file(const std::string& text) const {
    std::ofstream(folder_ + "/file.json") << text;
    return folder_ + "/file.json";
  }
  std::string errorOf(const std::string& text) const {
    const auto curves = readCurves(file(text));
    return curves.ok() ? "no error" : std::string(curves.error().message());
  }
  const std::string folder_ = ::testing::TempDir() + "bps-files-" + std::to_string(::getpid());
};

TEST(Csv, HasOneLineForEachRow) {
  const std::string text = csvText({row(1024, 4), row(2048, 8)});
  EXPECT_EQ(countOf(text, "\n"), 3U);
  EXPECT_NE(text.find("\n1024,256,float,sum,2.500,2.000000,4.000000,3,5.000,1.000000,8.000000,\n"), std::string::npos)
      << text;
}

TEST(Plot, HasOneCurveForEachPlacementAndRun) {
  std::vector<Curve> curves = curvesOf("run <1>", {row(1024, 4), row(2048, 8)});
  ASSERT_EQ(curves.size(), 2U);
  EXPECT_EQ(curves[1].points, (std::vector<std::pair<uint64_t, double>>{{1024, 8}, {2048, 16}}));
  const std::string text = plotText("a & b", curves, 20);
  EXPECT_EQ(countOf(text, "<polyline"), 2U);
  EXPECT_EQ(countOf(text, "<circle"), 4U);
  EXPECT_NE(text.find("a &amp; b"), std::string::npos);
  EXPECT_NE(text.find("run &lt;1&gt;"), std::string::npos);
  EXPECT_NE(text.find("ideal, 20.000 GB/s"), std::string::npos);
}

TEST(Plot, TheHighestPointIsHighest) {
  const std::string text = plotText("t", {{"c", {{1024, 1}, {4096, 10}}}}, 0);
  const size_t first = text.find("points=\"") + 8;
  double x1 = 0, y1 = 0, x2 = 0, y2 = 0;
  ASSERT_EQ(std::sscanf(text.c_str() + first, "%lf,%lf %lf,%lf", &x1, &y1, &x2, &y2), 4);
  EXPECT_LT(x1, x2);
  EXPECT_NEAR((432 - y2) / (432 - y1), 10, 0.1);  // the axis of zero is at 432
}

TEST(Plot, OneSizeAndNoBandwidthGiveNoNonsense) {
  for (const std::string& text : {plotText("t", curvesOf("r", {row(0, 0)}), 0), plotText("t", {}, 0)}) {
    EXPECT_EQ(countOf(text, "nan") + countOf(text, "inf"), 0U) << text;
    EXPECT_GT(countOf(text, "</svg>") + countOf(text, "/>\n"), 0U) << text;
  }
}

TEST_F(FilesTest, ReadsTheCurvesOfAnEarlierRun) {
  auto read = readCurves(file(
      R"({"results": [{"size": 8, "type": "half", "redop": "max", "out_of_place": {"bus_bw": 2.5}, "in_place": {"bus_bw": "nan"}}]})"));
  ASSERT_TRUE(read.ok()) << read.error().message();
  const std::vector<Curve> curves = std::move(read).value();
  ASSERT_EQ(curves.size(), 1U);
  EXPECT_NE(curves[0].name.find("file.json: half max, out of place"), std::string::npos);
  EXPECT_EQ(curves[0].points, (std::vector<std::pair<uint64_t, double>>{{8, 2.5}}));
}

TEST_F(FilesTest, BadFilesAreNamed) {
  for (const char* text : {"", "{", "[]", R"({"results": 3})", R"({"results": [{"size": -1}]})"})
    EXPECT_NE(errorOf(text).find("file.json"), std::string::npos) << text;
  EXPECT_NE(errorOf(R"({"results": []})").find("no results"), std::string::npos);
  const auto missing = readCurves("/nonexistent.json");
  ASSERT_FALSE(missing.ok());
  EXPECT_NE(std::string(missing.error().message()).find("/nonexistent.json"), std::string::npos);
}

TEST_F(FilesTest, AFileThatCannotBeWrittenIsNamed) {
  const std::string path = folder_ + "/no/such.csv";
  const Status written = writeFile("--csv", path, "x");
  ASSERT_FALSE(written.ok());
  EXPECT_NE(std::string(written.message()).find("--csv " + path), std::string::npos);
  EXPECT_FALSE(writeFile("--csv", "/dev/full", "x").ok());
}

}  // namespace
}  // namespace bps::perf
