#include "src/base/env.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

namespace bps {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::map<std::string, std::string>& settings() {
  static std::map<std::string, std::string> instance;
  return instance;
}

const char* lookup(const char* name) {
  const auto found = settings().find(name);
  return found == settings().end() ? nullptr : found->second.c_str();
}

Result<Env> parseWith(const std::map<std::string, std::string>& values) {
  settings() = values;
  return parseEnv(lookup);
}

Env good(const std::map<std::string, std::string>& values) {
  auto parsed = parseWith(values);
  EXPECT_TRUE(parsed.ok()) << parsed.error().message();
  return parsed.ok() ? std::move(parsed).value() : Env{};
}

const EnvVar& row(const std::string& name) {
  for (const EnvVar& var : envTable())
    if (var.name == name) return var;
  ADD_FAILURE() << name << " is not in the table";
  return envTable().front();
}

TEST(EnvTest, NothingSetGivesTheDefaults) {
  const Env env = good({});
  EXPECT_EQ(env.partitionBytes.value, Env{}.partitionBytes.value);
  EXPECT_EQ(env.timeout.value, 10);
  EXPECT_TRUE(env.auth);
  EXPECT_EQ(env.servers, "");
}

TEST(EnvTest, ReadsEveryKind) {
  const Env env = good({{"BPS_SERVERS", "a:1,b:2"},
                        {"BPS_PARTITION_BYTES", "1.5M"},
                        {"BPS_TIMEOUT", "2.5"},
                        {"BPS_BANDWIDTH", "100"},
                        {"BPS_RANK", "3"},
                        {"BPS_AUTH", "off"}});
  EXPECT_EQ(env.servers, "a:1,b:2");
  EXPECT_EQ(env.partitionBytes.value, 3U << 19);
  EXPECT_EQ(env.timeout.value, 2.5);
  EXPECT_EQ(env.bandwidth.value, 100);
  EXPECT_EQ(env.rank, 3);
  EXPECT_FALSE(env.auth);
}

TEST(EnvTest, FallsBackToNcclsVariableAndPrefersOurs) {
  EXPECT_EQ(good({{"NCCL_SOCKET_IFNAME", "eth0"}}).socketIfname, "eth0");
  EXPECT_EQ(good({{"NCCL_SOCKET_IFNAME", "eth0"}, {"BPS_SOCKET_IFNAME", "ib0"}}).socketIfname, "ib0");
}

// A bad value of any variable is an error that names the variable, the value and what would be right.
TEST(EnvTest, EveryVariableWithARangeRefusesWhatIsOutsideIt) {
  for (const EnvVar& var : envTable()) {
    if (std::holds_alternative<std::string Env::*>(var.field)) continue;
    std::vector<std::string> bad{"banana", "", " 1", "1 ", "1x", "nan", "inf", "-3", "1e99", "99999999999999999999"};
    if (std::holds_alternative<bool Env::*>(var.field)) bad = {"banana", "", "2", "yes ", "-1"};
    if (var.least > 0) bad.emplace_back("0");
    for (const std::string& value : bad) {
      auto parsed = parseWith({{std::string(var.name), value}});
      ASSERT_FALSE(parsed.ok()) << var.name << "=" << value;
      EXPECT_EQ(parsed.error().code(), Code::kInvalidArgument);
      EXPECT_THAT(parsed.error().message(), HasSubstr(std::string(var.name) + "=" + value));
      EXPECT_THAT(parsed.error().message(), HasSubstr(std::string(var.accepts)));
    }
  }
}

TEST(EnvTest, ChoicesRefuseOtherWords) {
  for (const char* name : {"BPS_DEVICE", "BPS_STRATEGY", "BPS_NCCL_LOCAL", "BPS_DEBUG", "BPS_CPU_TARGET"}) {
    auto parsed = parseWith({{name, "banana"}});
    ASSERT_FALSE(parsed.ok()) << name;
    EXPECT_THAT(parsed.error().message(), HasSubstr(std::string(row(name).accepts)));
  }
  EXPECT_EQ(good({{"BPS_STRATEGY", "rooted"}}).strategy, "rooted");
  EXPECT_EQ(good({{"BPS_DEBUG", "INFO"}}).debug, "INFO");
}

TEST(EnvTest, LimitsThemselvesAreAccepted) {
  EXPECT_EQ(good({{"BPS_PARTITION_BYTES", "4K"}}).partitionBytes.value, 4096U);
  EXPECT_EQ(good({{"BPS_PARTITION_BYTES", "1G"}}).partitionBytes.value, 1U << 30);
  EXPECT_FALSE(parseWith({{"BPS_PARTITION_BYTES", "4095"}}).ok());
  EXPECT_FALSE(parseWith({{"BPS_PARTITION_BYTES", "1.001G"}}).ok());
  EXPECT_FALSE(parseWith({{"BPS_PARTITION_BYTES", "-3"}}).ok());
}

TEST(EnvTest, BadValueOfAFallbackNamesTheFallback) {
  auto parsed = parseWith({{"NCCL_DEBUG", "banana"}});
  ASSERT_FALSE(parsed.ok());
  EXPECT_THAT(parsed.error().message(), HasSubstr("NCCL_DEBUG=banana"));
}

TEST(EnvTest, FindsTypos) {
  const char* environment[] = {
      "BPS_SERVERS=a:1", "BPS_SERVER=a:1", "PATH=/bin", "BPS_=", "XBPS_Y=1", "BPS_TIMEOUT", nullptr};
  EXPECT_THAT(unknownVars(environment), ElementsAre("BPS_SERVER", "BPS_"));
  EXPECT_TRUE(unknownVars(nullptr).empty());
}

TEST(EnvTest, TablesNameEveryVariableOnce) {
  settings() = {{"BPS_TIMEOUT", "7"}, {"NCCL_IB_HCA", "mlx5"}};
  const std::string text = envText(lookup), markdown = envMarkdown();
  for (const EnvVar& var : envTable()) {
    EXPECT_THAT(text, HasSubstr(std::string(var.name) + " "));
    const std::string cell = "| `" + std::string(var.name) + "` |";
    const size_t at = markdown.find(cell);
    ASSERT_NE(at, std::string::npos) << var.name;
    EXPECT_EQ(markdown.find(cell, at + 1), std::string::npos) << var.name;
    EXPECT_FALSE(var.doc.empty());
    EXPECT_FALSE(var.accepts.empty());
  }
  EXPECT_THAT(text, ::testing::ContainsRegex("BPS_TIMEOUT +7 +environment"));
  EXPECT_THAT(text, ::testing::ContainsRegex("BPS_IB_HCA +mlx5 +NCCL_IB_HCA"));
  EXPECT_THAT(text, ::testing::ContainsRegex("BPS_CHANNELS +1 +default"));
}

TEST(EnvTest, Sizes) {
  const auto bytes = [](std::string_view text) { return parseBytes(text).ok() ? parseBytes(text).value() : ~0ULL; };
  EXPECT_EQ(bytes("8"), 8U);
  EXPECT_EQ(bytes("64K"), 65536U);
  EXPECT_EQ(bytes("1.5m"), 3U << 19);
  EXPECT_EQ(bytes("2G"), uint64_t{1} << 31);
  for (const char* bad : {"", "K", "1KB", "1T", "-1", "0x10", "1 K", "nan", "1e400"})
    EXPECT_EQ(bytes(bad), ~0ULL) << bad;
}

}  // namespace
}  // namespace bps
