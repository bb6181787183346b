#include "perf/app/options.h"

#include <gmock/gmock.h>

#include "perf/app/environment.h"

namespace bps::perf {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Words = std::vector<const char*>;

Options good(const Words& words) {
  auto options = parseOptions(words);
  EXPECT_TRUE(options.ok()) << options.error().message();
  return options.ok() ? std::move(options).value() : Options{};
}
std::string bad(const Words& words) {
  const auto options = parseOptions(words);
  EXPECT_FALSE(options.ok());
  return options.error().message();
}

TEST(Options, AcceptsAllFormsOfAnOption) {
  for (const Words& words : {Words{"-b", "8", "-e", "8"}, {"-b8", "-e8"}, {"--minbytes=8", "--maxbytes", "8"}}) {
    EXPECT_EQ(good(words).minBytes, 8U);
    EXPECT_EQ(good(words).maxBytes, 8U);
  }
  EXPECT_EQ(good({"-b", "1.5M"}).minBytes, 3U << 19);
}

TEST(Options, EveryOptionOfNcclTestsIsKnown) {
  for (const char* letter : {"t", "g", "b", "i", "f", "n", "m", "w", "N", "p", "c", "z", "y",
                             "T", "C", "a", "R", "S", "M", "u", "I", "G", "V", "x", "r"}) {
    const std::string word = std::string("-") + letter;
    const auto parsed = parseOptions(Words{word.c_str(), "1"});
    EXPECT_TRUE(parsed.ok()) << parsed.error().message();
  }
  EXPECT_EQ(good({"-r", "-1"}).root, "-1");
  EXPECT_EQ(good({"-I", "1", "-K", "3"}).skipIterations, 3);
  EXPECT_EQ(good({"-R", "2", "-D", "1"}).device, 1);
  EXPECT_TRUE(good({"--help"}).help);
}

TEST(Options, OptionsWithoutEffectAreNoted) {
  EXPECT_THAT(good({"-G", "4"}).notes, ElementsAre(HasSubstr("-G 4 has no effect")));
  EXPECT_THAT(good({"-b", "8"}).notes, ElementsAre());
}

TEST(Options, ErrorsNameOptionValueAndExpectation) {
  EXPECT_THAT(bad({"-b", "banana"}), AllOf(HasSubstr("-b"), HasSubstr("banana"), HasSubstr("64K")));
  EXPECT_THAT(bad({"--frobnicate"}), HasSubstr("unknown option --frobnicate"));
  EXPECT_THAT(bad({"-q"}), HasSubstr("-q"));
  EXPECT_THAT(bad({"-n"}), HasSubstr("-n: needs a value"));
  EXPECT_THAT(bad({"-n", "1.5"}), HasSubstr("1.5"));
  EXPECT_THAT(bad({"-n", "0"}), HasSubstr("from 1"));
  EXPECT_THAT(bad({"-a", "4"}), HasSubstr("from 0 to 3"));
  EXPECT_THAT(bad({"-d", "quad"}), AllOf(HasSubstr("quad"), HasSubstr("bfloat16")));
  EXPECT_THAT(bad({"-o", "xor"}), AllOf(HasSubstr("xor"), HasSubstr("mulsum")));
  EXPECT_THAT(bad({"-J", "x.txt"}), HasSubstr(".json"));
  EXPECT_THAT(bad({"--plot", "x.png"}), HasSubstr("x.png"));
  EXPECT_THAT(bad({"--plot-with", "x.json"}), HasSubstr("needs --plot"));
  EXPECT_THAT(bad({"8"}), HasSubstr("not an option"));
  EXPECT_THAT(bad({"--backward-order=yes", "--model", "lenet5"}), HasSubstr("takes no value"));
}

TEST(Options, ContradictionsAreErrors) {
  EXPECT_THAT(bad({"-b", "2M", "-e", "1M"}), HasSubstr("more than"));
  EXPECT_THAT(bad({"-b", "1M", "-e", "2M", "-i", "0"}), HasSubstr("never gets"));
  EXPECT_THAT(bad({"-b", "0", "-e", "2M", "-f", "2"}), HasSubstr("stays 0"));
  EXPECT_THAT(bad({"-K", "3"}), HasSubstr("-I 1"));
  EXPECT_THAT(bad({"-D", "1"}), HasSubstr("-R 2"));
  EXPECT_THAT(bad({"--model", "x", "--tensors", "y"}), HasSubstr("exclude"));
  EXPECT_THAT(bad({"--out", "y"}), HasSubstr("needs --tensors"));
  EXPECT_THAT(bad({"--model", "x", "-d", "all"}), HasSubstr("one type"));
}

std::vector<uint64_t> sizes(const Options& options) {
  std::vector<uint64_t> all;
  for (std::optional<uint64_t> size = options.minBytes; size && all.size() < 100; size = nextSize(options, *size))
    all.push_back(*size);
  return all;
}

TEST(Options, SizesFollowStepAndFactor) {
  EXPECT_THAT(sizes(good({"-b", "4", "-e", "64", "-f", "4"})), ElementsAre(4, 16, 64));
  EXPECT_THAT(sizes(good({"-b", "4", "-e", "11", "-i", "3"})), ElementsAre(4, 7, 10));
  EXPECT_THAT(sizes(good({"-b", "0", "-e", "0"})), ElementsAre(0));
  EXPECT_EQ(sizes(good({"-b", "0", "-e", "64M", "-i", "1"})).size(), 100U) << "rows are made one by one";
  EXPECT_EQ(nextSize(good({"-b", "8", "-e", "64M", "-f", "1000000"}), uint64_t{1} << 60), std::nullopt);
}

TEST(PerfEnvironment, ShowsNoSecrets) {
  const char* const variables[] = {"BPS_RANK=1",       "NCCL_DEBUG=INFO", "HOME=/root", "BPS_KEY_FILE=/k",
                                   "NCCL_API_TOKEN=x", "BPS_KEY=y",       "RANK=3",     nullptr};
  std::vector<std::string> names;
  for (const auto& each : shownEnvironment(variables)) names.push_back(each.first);
  EXPECT_THAT(names, ElementsAre("BPS_KEY_FILE", "BPS_RANK", "NCCL_DEBUG", "RANK"));
}

}  // namespace
}  // namespace bps::perf
