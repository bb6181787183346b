#include "perf/app/environment.h"

#include <gmock/gmock.h>

#include <cstring>

namespace bps::perf {
namespace {

using testing::HasSubstr;

const char* gSplit = nullptr;
const char* gMask = nullptr;

Lookup lookup() {
  return [](const char* name) -> const char* {
    if (std::strcmp(name, "NCCL_TESTS_SPLIT") == 0) return gSplit;
    return std::strcmp(name, "NCCL_TESTS_SPLIT_MASK") == 0 ? gMask : nullptr;
  };
}

std::optional<int> color(const char* split, const char* mask, int process) {
  gSplit = split;
  gMask = mask;
  return splitColor(lookup(), process).value();
}

TEST(PerfEnvironment, SplitsProcessesAsNcclTests) {
  EXPECT_EQ(color(nullptr, nullptr, 5), std::nullopt);
  EXPECT_EQ(color("", "", 5), std::nullopt);
  EXPECT_EQ(color(nullptr, "3", 6), 2);
  EXPECT_EQ(color(nullptr, "0x10", 17), 16);
  EXPECT_EQ(color("MOD2", "1", 7), 1) << "the mask comes first";
  EXPECT_EQ(color("AND0x6", nullptr, 5), 4);
  EXPECT_EQ(color("&0b101", nullptr, 7), 5);
  EXPECT_EQ(color("or8", nullptr, 3), 11);
  EXPECT_EQ(color("|8", nullptr, 3), 11);
  EXPECT_EQ(color("mod3", nullptr, 7), 1);
  EXPECT_EQ(color("%3", nullptr, 8), 2);
  EXPECT_EQ(color("DIV4", nullptr, 9), 2);
  EXPECT_EQ(color("/4", nullptr, 3), 0);
}

TEST(PerfEnvironment, ErrorNamesInvalidSplit) {
  for (const char* text : {"banana", "MOD0", "DIV", "/0", "MOD-1", "MOD2x", "XOR3", "MOD99999999999"}) {
    gSplit = text;
    gMask = nullptr;
    const auto result = splitColor(lookup(), 1);
    ASSERT_FALSE(result.ok()) << text;
    EXPECT_THAT(result.error().message(), HasSubstr(std::string("NCCL_TESTS_SPLIT=") + text));
  }
  gMask = "xyz";
  EXPECT_THAT(splitColor(lookup(), 1).error().message(), HasSubstr("NCCL_TESTS_SPLIT_MASK=xyz"));
}

}  // namespace
}  // namespace bps::perf
