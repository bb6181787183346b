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

TEST(EnvTest, EmptyEnvironmentGivesTheDefaults) {
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

TEST(EnvTest, FallsBackToTheNcclVariable) {
  EXPECT_EQ(good({{"NCCL_SOCKET_IFNAME", "eth0"}}).socketIfname, "eth0");
  EXPECT_EQ(good({{"NCCL_SOCKET_IFNAME", "eth0"}, {"BPS_SOCKET_IFNAME", "ib0"}}).socketIfname, "ib0");
}

// If a variable has an invalid value, the error names the variable, its value and the accepted values.
TEST(EnvTest, ValuesOutOfRangeAreErrors) {
  for (const EnvVar& var : envTable()) {
    if (std::holds_alternative<std::string Env::*>(var.field) || var.name.starts_with("NCCL_")) continue;
    std::vector<std::string> bad{"banana", "", " 1", "1 ", "1x", "nan", "inf", "-3", "1e99", "99999999999999999999"};
    if (std::holds_alternative<bool Env::*>(var.field)) bad = {"banana", "", "2", "yes ", "-1", "tru"};
    if (var.least > 0) bad.emplace_back("0");
    if (std::holds_alternative<PortRange Env::*>(var.field)) std::erase(bad, "");  // an empty port range is valid
    for (const std::string& value : bad) {
      auto parsed = parseWith({{std::string(var.name), value}});
      ASSERT_FALSE(parsed.ok()) << var.name << "=" << value;
      EXPECT_EQ(parsed.error().code(), Code::kInvalidArgument);
      EXPECT_THAT(parsed.error().message(), HasSubstr(std::string(var.name) + "=" + value));
      EXPECT_THAT(parsed.error().message(), HasSubstr(std::string(var.accepts)));
    }
  }
}

TEST(EnvTest, UnknownChoicesAreErrors) {
  for (const char* name : {"BPS_DEVICE", "BPS_STRATEGY", "BPS_NCCL_LOCAL", "BPS_DEBUG", "BPS_CPU_TARGET"}) {
    auto parsed = parseWith({{name, "banana"}});
    ASSERT_FALSE(parsed.ok()) << name;
    EXPECT_THAT(parsed.error().message(), HasSubstr(std::string(row(name).accepts)));
  }
  EXPECT_EQ(good({{"BPS_STRATEGY", "rooted"}}).strategy, "rooted");
  EXPECT_EQ(good({{"BPS_DEBUG", "INFO"}}).debug, "INFO");
}

TEST(EnvTest, RangeLimitsAreAccepted) {
  EXPECT_EQ(good({{"BPS_PARTITION_BYTES", "4K"}}).partitionBytes.value, 4096U);
  EXPECT_EQ(good({{"BPS_PARTITION_BYTES", "1G"}}).partitionBytes.value, 1U << 30);
  EXPECT_FALSE(parseWith({{"BPS_PARTITION_BYTES", "4095"}}).ok());
  EXPECT_FALSE(parseWith({{"BPS_PARTITION_BYTES", "1.001G"}}).ok());
  EXPECT_FALSE(parseWith({{"BPS_PARTITION_BYTES", "-3"}}).ok());
}

TEST(EnvTest, ChoicesAndSwitchesIgnoreCase) {
  EXPECT_EQ(good({{"BPS_DEBUG", "info"}}).debug, "INFO");
  EXPECT_EQ(good({{"BPS_STRATEGY", "Rooted"}}).strategy, "rooted");
  EXPECT_FALSE(parseWith({{"BPS_STRATEGY", "or"}}).ok());
  for (const char* on : {"1", "true", "YES", "On"}) EXPECT_TRUE(good({{"BPS_DISABLE", on}}).disable) << on;
  for (const char* off : {"0", "FALSE", "no", "off"}) EXPECT_FALSE(good({{"BPS_AUTH", off}}).auth) << off;
}

// Returns the warnings of parseEnv(), each on its own line.
std::string warningsOf(const std::map<std::string, std::string>& values) {
  settings() = values;
  std::vector<std::string> warnings;
  EXPECT_TRUE(parseEnv(lookup, &warnings).ok());
  std::string text;
  for (const std::string& warning : warnings) text += warning + "\n";
  return text;
}

TEST(EnvTest, ReadsNcclVariablesAsNcclDoes) {
  for (const auto& [text, level] : std::map<std::string, std::string>{
           {"info", "INFO"}, {"Trace", "TRACE"}, {"ABORT", "INFO"}, {"warn", "WARN"}, {"version", "VERSION"}})
    EXPECT_EQ(good({{"NCCL_DEBUG", text}}).debug, level) << text;
  EXPECT_TRUE(good({{"NCCL_SHM_DISABLE", "2"}}).shmDisable);
  EXPECT_TRUE(good({{"NCCL_IGNORE_CPU_AFFINITY", " 1x"}}).ignoreCpuAffinity);
  EXPECT_FALSE(good({{"NCCL_IB_DISABLE", "0x0"}}).ibDisable);
  EXPECT_EQ(good({{"NCCL_IB_TC", "0x6a"}}).ibTrafficClass, 106);
  EXPECT_EQ(good({{"NCCL_IB_TIMEOUT", ""}}).ibTimeout, 20);
  EXPECT_EQ(good({{"NCCL_NET_PLUGIN", "aws-ofi"}}).netPlugin, "aws-ofi,bps");
  EXPECT_EQ(good({{"BPS_NET_PLUGIN", "aws-ofi"}}).netPlugin, "aws-ofi");
}

TEST(EnvTest, UnusableNcclValuesWarnAndKeepTheDefault) {
  EXPECT_EQ(good({{"NCCL_DEBUG", "3"}}).debug, "WARN");
  EXPECT_EQ(warningsOf({{"NCCL_DEBUG", "3"}}),
            "NCCL_DEBUG=3: not one of the accepted words (accepts NONE, VERSION, WARN, INFO or TRACE); using the "
            "default\n");
  for (const EnvVar& var : envTable()) {
    const bool ours = var.name.starts_with("BPS_");
    const std::string name(ours ? var.fallback : var.name);
    if (name.empty() || std::holds_alternative<std::string Env::*>(var.field)) continue;
    for (const char* value : {"banana", "true", "99999999999999999999"})
      EXPECT_THAT(warningsOf({{name, value}}), HasSubstr(name + "=" + value)) << name;
  }
  EXPECT_EQ(good({{"NCCL_IB_TIMEOUT", "77"}}).ibTimeout, 20);
  EXPECT_THAT(warningsOf({{"NCCL_IB_TIMEOUT", "77"}}), HasSubstr("NCCL_IB_TIMEOUT=77: out of range (accepts 1 to 31)"));
}

TEST(EnvTest, UnknownSubsystemsAreReported) {
  EXPECT_EQ(warningsOf({{"BPS_DEBUG_SUBSYS", "init,NET"}}), "");
  EXPECT_EQ(warningsOf({{"NCCL_DEBUG_SUBSYS", "^GRAPH,tuning,Init"}}), "");
  EXPECT_THAT(warningsOf({{"BPS_DEBUG_SUBSYS", "INIT,nett,TOPOS"}}),
              HasSubstr("BPS_DEBUG_SUBSYS=INIT,nett,TOPOS: unknown subsystem NETT, TOPOS"));
}

TEST(EnvTest, ReportsWhichVariableGaveTheValue) {
  EXPECT_EQ(good({{"NCCL_IB_HCA", "mlx5"}}).nameInUse("BPS_IB_HCA"), "NCCL_IB_HCA");
  EXPECT_EQ(good({{"NCCL_IB_HCA", "mlx5"}, {"BPS_IB_HCA", "mlx4"}}).nameInUse("BPS_IB_HCA"), "BPS_IB_HCA");
}

bool disabledWith(const std::map<std::string, std::string>& values) {
  settings() = values;
  return preloadDisabled(lookup);
}

TEST(EnvTest, DisableWinsOverInvalidVariables) {
  EXPECT_FALSE(disabledWith({}));
  EXPECT_FALSE(disabledWith({{"BPS_DISABLE", "0"}, {"BPS_DEVICE", "cuda"}}));
  EXPECT_TRUE(disabledWith({{"BPS_DISABLE", "1"}, {"BPS_TIMEOUT", "soon"}, {"BPS_DEVICE", "banana"}}));
  EXPECT_TRUE(disabledWith({{"BPS_DEVICE", "host"}, {"BPS_DISABLE", "banana"}}));
}

TEST(EnvTest, MisspeltNamesGetASuggestion) {
  EXPECT_EQ(describeUnknown("BPS_SERVER"), "BPS_SERVER is not a variable of bps: did you mean BPS_SERVERS?");
  EXPECT_THAT(describeUnknown("BPS_KEYFILE"), HasSubstr("did you mean BPS_KEY_FILE?"));
  EXPECT_THAT(describeUnknown("BPS_TIEMOUT"), HasSubstr("did you mean BPS_TIMEOUT?"));
  EXPECT_THAT(describeUnknown("BPS_SOCKET_IFACE"), HasSubstr("did you mean BPS_SOCKET_IFNAME?"));
  EXPECT_EQ(describeUnknown("BPS_SOMETHING_ELSE"),
            "BPS_SOMETHING_ELSE is not a variable of bps (bps-topo --env lists them)");
}

TEST(EnvTest, FindsTypos) {
  const char* environment[] = {
      "BPS_SERVERS=a:1", "BPS_SERVER=a:1", "PATH=/bin", "BPS_=", "XBPS_Y=1", "BPS_TIMEOUT", nullptr};
  EXPECT_THAT(unknownVars(environment), ElementsAre("BPS_SERVER", "BPS_"));
  EXPECT_TRUE(unknownVars(nullptr).empty());
}

TEST(EnvTest, TablesNameEveryVariableOnce) {
  settings() = {{"BPS_TIMEOUT", "7"}, {"NCCL_IB_HCA", "mlx5"}};
  const char* nothing[] = {nullptr};
  const EnvText table = envText(lookup, nothing);
  EXPECT_EQ(table.wrong, 0U);
  const std::string text = table.text, markdown = envMarkdown();
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
  EXPECT_THAT(text, ::testing::ContainsRegex("BPS_RAILS +0 +default"));
}

TEST(EnvTest, TableMarksInvalidValues) {
  settings() = {{"BPS_TIMEOUT", "soon"}, {"NCCL_IB_TC", "900"}};
  const char* environment[] = {"BPS_SERVER=a:1", "BPS_TIMEOUT=soon", nullptr};
  const EnvText table = envText(lookup, environment);
  EXPECT_EQ(table.wrong, 3U);
  EXPECT_THAT(table.text, ::testing::ContainsRegex("BPS_TIMEOUT +soon +environment +WRONG: BPS_TIMEOUT=soon: not a n"));
  EXPECT_THAT(table.text,
              ::testing::ContainsRegex("NCCL_IB_TC +900 +environment +WRONG: NCCL_IB_TC=900: out of range"));
  EXPECT_THAT(table.text, ::testing::ContainsRegex("BPS_SERVER +UNKNOWN: .*did you mean BPS_SERVERS"));
}

TEST(EnvTest, MetricsNeedANumericAddressAndAPort) {
  for (const char* text : {"127.0.0.1:9400", "[::1]:0", "0.0.0.0:65535", ""})
    EXPECT_EQ(good({{"BPS_METRICS", text}}).metrics, text);
  for (const char* text : {"9400", ":9400", "127.0.0.1", "127.0.0.1:", "127.0.0.1:65536", "node1:9400", "[::1:9400"}) {
    const auto parsed = parseWith({{"BPS_METRICS", text}});
    ASSERT_FALSE(parsed.ok()) << text;
    EXPECT_THAT(parsed.error().message(), HasSubstr(std::string("BPS_METRICS=") + text + ": "));
    EXPECT_THAT(parsed.error().message(), HasSubstr("accepts ADDR:PORT"));
  }
}

TEST(EnvTest, ParsesSizes) {
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
