#include "src/base/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>

#include "src/base/env.h"

namespace bps {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

// Returns the text that `body` logs with the settings `env`. `body` runs in a new process, because a process can set up
// its log only once.
template <class Body>
std::string logOf(Env env, Body body) {
  const std::string name = ::testing::TempDir() + "bps_log_test_" + std::to_string(::getpid());
  env.debugFile = name + "_%p_%%";
  const pid_t child = ::fork();
  if (child == 0) {
    logInit(env);
    body();
    ::_exit(0);
  }
  ::waitpid(child, nullptr, 0);
  const std::string path = name + "_" + std::to_string(child) + "_%%";
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  std::remove(path.c_str());
  return text.str();
}

Env withDebug(const std::string& level, const std::string& subsystems = "") {
  Env env;
  env.debug = level;
  env.debugSubsys = subsystems;
  return env;
}

void logEach() {
  logWarn(Subsystem::kNet, "warned of {}", 1);
  logInfo(Subsystem::kNet, "net {}", 2);
  logInfo(Subsystem::kInit, "init {}", 3);
}

TEST(LogTest, JsonLineEscapesTextAndIsValidUtf8) {
  Env env = withDebug("INFO");
  env.logFormat = "json";
  const std::string text = logOf(env, [] {
    logThreadName("rank 3");
    logInfo(Subsystem::kNet, "{}", std::string("a\"b\\c\n\xff\xc3\xa9"));
  });
  EXPECT_THAT(text, ContainsRegex(R"(^\{"time":"[0-9-]+T[0-9:.]+[+-][0-9]{4}","host":"[^"]+","pid":[0-9]+,"thread":)"));
  EXPECT_THAT(text,
              HasSubstr("\"thread\":\"rank 3\",\"level\":\"INFO\",\"subsystem\":\"NET\",\"text\":\"a\\\"b\\\\c\\u000a"
                        "\xEF\xBF\xBD\xc3\xa9\"}\n"));
}

TEST(LogTest, ReopenedFileGetsLaterLines) {
  const std::string text = logOf(withDebug("INFO"), [] {
    logInfo(Subsystem::kNet, "before");
    const std::string path =
        expandFileName(::testing::TempDir() + "bps_log_test_" + std::to_string(::getppid()) + "_%p_%%");
    std::rename(path.c_str(), (path + ".old").c_str());
    if (!logReopen()) return;
    logInfo(Subsystem::kNet, "after");
    std::remove((path + ".old").c_str());
  });
  EXPECT_THAT(text, HasSubstr("after"));
  EXPECT_THAT(text, Not(HasSubstr("before")));
}

TEST(LogTest, LineHasTimeHostProcessThreadAndText) {
  const std::string text = logOf(withDebug("INFO"), [] {
    logThreadName("rank 3");
    logInfo(Subsystem::kInit, "{} of {}", 1, 2);
  });
  EXPECT_THAT(text, ContainsRegex("^[0-9-]+ [0-9:.]+ [^ ]+:[0-9]+ \\[rank 3\\] bps INFO INIT 1 of 2\n$"));
}

TEST(LogTest, PeerTextCannotAddLines) {
  const std::string text = logOf(withDebug("WARN"), [] {
    logWarn(Subsystem::kServer, "the peer refuses: {}", "no\n2026-01-01 bps WARN SERVER \x1b[2Kforged\r");
  });
  EXPECT_THAT(text, HasSubstr("the peer refuses: no 2026-01-01 bps WARN SERVER ?[2Kforged?\n"));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1);
}

TEST(LogTest, LevelFiltersLines) {
  EXPECT_EQ(logOf(withDebug("NONE"), logEach), "");
  const std::string warn = logOf(withDebug("WARN"), logEach);
  EXPECT_THAT(warn, HasSubstr("WARN NET warned of 1"));
  EXPECT_THAT(warn, Not(HasSubstr("INFO")));
  EXPECT_THAT(logOf(withDebug("INFO"), logEach), HasSubstr("INFO INIT init 3"));
}

TEST(LogTest, SubsystemsFilterLinesButKeepWarnings) {
  const std::string only = logOf(withDebug("INFO", "INIT,COLL"), logEach);
  EXPECT_THAT(only, HasSubstr("init 3"));
  EXPECT_THAT(only, Not(HasSubstr("net 2")));
  EXPECT_THAT(only, HasSubstr("warned of 1"));
  const std::string but = logOf(withDebug("INFO", "^INIT"), logEach);
  EXPECT_THAT(but, HasSubstr("net 2"));
  EXPECT_THAT(but, Not(HasSubstr("init 3")));
}

}  // namespace
}  // namespace bps
