#include "src/trace/recorder.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <thread>

namespace bps::trace {
namespace {

Header smallHeader() {
  Header header;
  header.job = 7;
  header.host = "host1";
  header.pid = 12;
  header.names = {"rank 0 (host1, pid 12)", "rank 1 (host2, pid 13)", "server s:1"};
  header.rates = {1e9, 1e9, 2e9};
  header.machines = 2;
  header.ranks = 2;
  return header;
}

Event eventOf(uint64_t time) { return {time, 1, 64, 0, kNoPeer, Stage::kSubmitted, 0}; }

class RecorderTest : public testing::Test {
 protected:
  ~RecorderTest() override { ::unlink(path_.c_str()); }
  File read() const {
    std::ifstream in(path_, std::ios::binary);
    const Blob bytes{std::istreambuf_iterator<char>(in), {}};
    Result<File> file = decodeFile(bytes);
    EXPECT_TRUE(file.ok()) << file.error().message();
    return file.ok() ? std::move(file).value() : File();
  }
  std::unique_ptr<Recorder> create(size_t capacity) const {
    return Recorder::create(path_, smallHeader(), nullptr, capacity).value();
  }

  const std::string path_ = testing::TempDir() + "bps_recorder_test." + std::to_string(::getpid());
};

TEST_F(RecorderTest, KeepsTheLastEventsAndCountsTheOthers) {
  const auto recorder = create(8);
  recorder->begin();
  for (uint64_t time = 1; time <= 11; ++time) recorder->add(eventOf(time));
  ASSERT_TRUE(recorder->write().ok());
  const File file = read();
  ASSERT_EQ(file.events.size(), 8U);
  EXPECT_EQ(file.events.front().time, 4U);
  EXPECT_EQ(file.events.back().time, 11U);
  EXPECT_EQ(file.lost, 3U);
}

TEST_F(RecorderTest, IgnoresEventsBeforeBegin) {
  const auto recorder = create(8);
  recorder->add(eventOf(1));
  recorder->begin();
  recorder->add(eventOf(2));
  ASSERT_TRUE(recorder->write().ok());
  EXPECT_EQ(read().events.size(), 1U);
}

TEST_F(RecorderTest, SecondWriteReplacesTheFirst) {
  const auto recorder = create(8);
  recorder->begin();
  recorder->add(eventOf(1));
  ASSERT_TRUE(recorder->write().ok());
  recorder->add(eventOf(2));
  ASSERT_TRUE(recorder->write().ok());
  EXPECT_EQ(read().events.size(), 2U);
}

TEST_F(RecorderTest, ThreadsMayAddWhileAnotherWrites) {
  const auto recorder = create(1 << 12);
  recorder->begin();
  std::thread adder([&] {
    for (uint64_t i = 1; i <= 2000; ++i) recorder->add(eventOf(i));
  });
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(recorder->write().ok());
  adder.join();
  ASSERT_TRUE(recorder->write().ok());
  EXPECT_EQ(read().events.size(), 2000U);
}

TEST_F(RecorderTest, UnwritablePathIsNamed) {
  const auto made = Recorder::create("/nonexistent/t.0", smallHeader(), nullptr, 8);
  ASSERT_FALSE(made.ok());
  EXPECT_NE(std::string(made.error().message()).find("/nonexistent/t.0"), std::string::npos);
}

TEST(TracePath, PatternNeedsRankOrProcess) {
  EXPECT_TRUE(checkPattern("").ok());
  EXPECT_TRUE(checkPattern("t.%r").ok());
  EXPECT_TRUE(checkPattern("t.%h.%p").ok());
  EXPECT_FALSE(checkPattern("t.%h").ok());
}

TEST(TracePath, SecondUseOfAPathGetsANumber) {
  EXPECT_EQ(expandPath("/x/first.%r", "3"), "/x/first.3");
  EXPECT_EQ(expandPath("/x/first.%r", "3"), "/x/first.3.2");
  EXPECT_EQ(expandPath("/x/first.%r", fileNameOf("[::1]:77")), "/x/first.server----1--77");
}

TEST(TraceFile, RefusesWhatIsNoTrace) {
  File file;
  file.header = smallHeader();
  file.clock = {{5, -7, 9}};
  file.events = {eventOf(3)};
  const Blob good = encode(file);
  ASSERT_TRUE(decodeFile(good).ok());
  EXPECT_EQ(decodeFile(good).value().clock[0].ahead, -7);
  const auto why = [](const Blob& bytes) { return std::string(decodeFile(bytes).error().message()); };
  EXPECT_NE(why({}).find("is empty"), std::string::npos);
  EXPECT_NE(why(Blob(100, 'x')).find("not a trace"), std::string::npos);
  EXPECT_NE(why(Blob(good.begin(), good.end() - 1)).find("cut off"), std::string::npos);
  Blob damaged = good;
  damaged[40] ^= 1;
  EXPECT_NE(why(damaged).find("damaged"), std::string::npos);
  Blob newer = good;
  newer[8] = 9;
  EXPECT_NE(why(newer).find("version 9"), std::string::npos);
  file.events[0].stage = static_cast<Stage>(99);
  EXPECT_NE(why(encode(file)).find("stage 99"), std::string::npos);
}

TEST(ClockOffset, BestSampleOfAPeriodCounts) {
  ClockOffset clock;
  clock.add({100, 1000, 200});  // the peer's clock is ahead by 850, within 50
  clock.add({300, 1165, 310});  // by 860, within 5
  clock.add({400, 2000, 900});
  const auto points = clock.points();
  ASSERT_EQ(points.size(), 1U);
  EXPECT_EQ(points[0].ahead, 860);
  EXPECT_EQ(points[0].uncertainty, 5U);
}

TEST(ClockOffset, LongJobsHaveFewPoints) {
  ClockOffset clock;
  for (uint64_t second = 0; second < 10000; ++second) {
    const uint64_t at = second * 1000000000;
    clock.add({at, at + 5, at + 10});
  }
  EXPECT_LE(clock.points().size(), ClockOffset::kMostPoints);
  EXPECT_GE(clock.points().size(), ClockOffset::kMostPoints / 2);
  EXPECT_GT(clock.points().back().at, 9000U * 1000000000);
}

}  // namespace
}  // namespace bps::trace
