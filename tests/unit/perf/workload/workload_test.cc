// Tests the workloads of bps-perf on ranks that are threads of this process. A FakeRunner computes the sums, and gives
// wrong results if a test asks for them.
#include "perf/workload/workload.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <regex>
#include <set>
#include <thread>

#include "perf/workload/compare.h"
#include "perf/workload/model/gradients.h"
#include "perf/workload/model/models.h"
#include "perf/workload/model/safetensors.h"
#include "tests/unit/perf/workload/fake_runner.h"

namespace bps::perf {
namespace {

using testing::HasSubstr;

struct Ended {
  std::vector<int> codes;  // -1: failed
  std::vector<std::string> failures;
  std::string printed;
};

Ended runRanks(World& world, const WorkloadOptions& options) {
  const auto ranks = static_cast<size_t>(world.ranks);
  Ended ended{std::vector<int>(ranks, -1), std::vector<std::string>(ranks), {}};
  testing::internal::CaptureStdout();
  {
    std::vector<std::jthread> threads;
    for (size_t rank = 0; rank < ranks; ++rank) {
      threads.emplace_back([&, rank] {
        FakeRunner runner(world, static_cast<int>(rank));
        Result<int> code = runWorkload(options, runner);
        if (code.ok()) ended.codes[rank] = std::move(code).value();
        else ended.failures[rank] = code.error().message();
      });
    }
  }
  ended.printed = testing::internal::GetCapturedStdout();
  return ended;
}

WorkloadOptions lenet(bpsDataType_t type = bpsFloat32, bpsRedOp_t op = bpsSum) {
  WorkloadOptions options;
  options.model = "lenet5";
  options.type = type;
  options.op = op;
  options.iterations = 1;
  options.warmup = 0;
  return options;
}

std::string checksumIn(const std::string& text) {
  std::smatch found;
  return std::regex_search(text, found, std::regex("\n# checksum (0x[0-9a-f]{16})\n")) ? found[1].str() : "none";
}

std::vector<int> all(int ranks, int code) { return std::vector<int>(static_cast<size_t>(ranks), code); }

TEST(ModelWorkload, AcceptsCorrectResultsOfEveryTypeAndOperation) {
  for (int type = 0; type < bpsNumTypes; ++type) {
    for (int op = 0; op < bpsNumOps; ++op) {
      World world(3);
      const Ended ended = runRanks(world, lenet(static_cast<bpsDataType_t>(type), static_cast<bpsRedOp_t>(op)));
      EXPECT_EQ(ended.codes, all(3, 0)) << "type " << type << ", op " << op << '\n' << ended.printed;
      EXPECT_NE(checksumIn(ended.printed), "none");
    }
  }
}

TEST(ModelWorkload, ChecksumIsIndependentOfOrderAndBuckets) {
  std::set<std::string> checksums;
  for (uint64_t bucketBytes : {uint64_t{0}, uint64_t{1}, uint64_t{10'000}, uint64_t{200'000}}) {
    for (bool backward : {false, true}) {
      World world(2);
      WorkloadOptions options = lenet(bpsBfloat16);
      options.bucketBytes = bucketBytes;
      options.backwardOrder = backward;
      const Ended ended = runRanks(world, options);
      EXPECT_EQ(ended.codes, all(2, 0)) << ended.printed;
      checksums.insert(checksumIn(ended.printed));
    }
  }
  EXPECT_EQ(checksums.size(), 1U);
  World other(3);
  checksums.insert(checksumIn(runRanks(other, lenet(bpsBfloat16)).printed));
  EXPECT_EQ(checksums.size(), 2U);  // three ranks give another sum than two
}

TEST(ModelWorkload, CountsCallsAndBytesOfBothPasses) {
  World world(2);
  WorkloadOptions options = lenet();
  options.bucketBytes = 20'000;
  const std::string printed = runRanks(world, options).printed;
  EXPECT_TRUE(std::regex_search(printed, std::regex("per tensor +10 +246824 "))) << printed;
  // The five calls carry 10288 bytes (the convolutions), 192000 bytes (fc1.weight), 480 bytes (fc1.bias), 40320 bytes
  // (fc2.weight) and 3736 bytes (all other tensors).
  EXPECT_TRUE(std::regex_search(printed, std::regex("buckets [0-9.]+ MiB +5 +246824 "))) << printed;
}

TEST(ModelWorkload, DetectsARankWithADifferentResult) {
  World world(3);
  world.errsFrom = 2;
  WorkloadOptions options = lenet();
  options.check = false;
  const Ended ended = runRanks(world, options);
  EXPECT_EQ(ended.codes, all(3, 7));
  EXPECT_THAT(ended.printed, HasSubstr("not the same on all ranks"));
}

TEST(ModelWorkload, ReferenceDetectsAWrongValueOnAllRanks) {
  World world(2);
  world.errsFrom = 0;
  WorkloadOptions options = lenet(bpsInt32);
  options.bucketBytes = 1;
  EXPECT_EQ(runRanks(world, options).codes, all(2, 7));
  options.check = false;
  World unchecked(2);
  unchecked.errsFrom = 0;
  EXPECT_EQ(runRanks(unchecked, options).codes, all(2, 0));
}

TEST(Workload, RejectsConflictingOptions) {
  World world(1);
  WorkloadOptions options = lenet();
  options.model = "lenet6";
  EXPECT_THAT(runRanks(world, options).failures[0], HasSubstr("no such model"));
  options.tensors = "x";
  EXPECT_THAT(runRanks(world, options).failures[0], HasSubstr("--model and --tensors"));
  options = lenet();
  options.out = "x";
  EXPECT_THAT(runRanks(world, options).failures[0], HasSubstr("go with --tensors"));
}

// Two ranks have a file each. Each file contains a tensor "w" of type F32 and shape {2, 3}, and a tensor "n" of type
// I64 and shape {2}.
class TensorWorkload : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(dir_);
    write("in_0", {{"w", bpsFloat32, {2, 3}, 0, 0}, {"n", bpsInt64, {2}, 0, 0}}, {1, 2, 3, 4, 5, 6}, {7, -8});
    write("in_1", {{"w", bpsFloat32, {2, 3}, 0, 0}, {"n", bpsInt64, {2}, 0, 0}}, {.5, .5, .5, .5, .5, -6}, {1, 1});
    options_.tensors = file("in_%r");
    options_.iterations = 1;
  }
  void TearDown() override { std::filesystem::remove_all(dir_); }

  std::string file(const std::string& name) const { return dir_ + "/" + name; }
  void write(const std::string& name, const std::vector<TensorInfo>& tensors, const std::vector<float>& w,
             const std::vector<int64_t>& n) {
    std::vector<uint8_t> data(w.size() * 4 + n.size() * 8);
    std::memcpy(data.data(), w.data(), w.size() * 4);
    std::memcpy(data.data() + w.size() * 4, n.data(), n.size() * 8);
    ASSERT_TRUE(writeTensors(file(name), tensors, data).ok());
  }
  void writeExpected(const std::vector<double>& values) {
    std::vector<uint8_t> data(values.size() * 8);
    std::memcpy(data.data(), values.data(), data.size());
    const std::vector<TensorInfo> tensors = {{"n", bpsFloat64, {2}, 0, 0}, {"w", bpsFloat64, {2, 3}, 0, 0}};
    ASSERT_TRUE(writeTensors(file("expected"), tensors, data).ok());
    options_.compare = file("expected");
  }
  Ended run() {
    World world(2);
    return runRanks(world, options_);
  }

  const std::string dir_ = testing::TempDir() + "bps_workload_" + std::to_string(::getpid());
  WorkloadOptions options_;
};

TEST_F(TensorWorkload, SumIsWrittenAndCompared) {
  options_.out = file("out_%r");
  writeExpected({8, -7, 1.5, 2.5, 3.5, 4.5, 5.5, 0});
  const Ended ended = run();
  EXPECT_EQ(ended.codes, all(2, 0)) << ended.failures[0] << ended.printed;
  EXPECT_THAT(ended.printed, HasSubstr("max relative error 0,"));
  auto read = readTensors(file("out_1"));
  ASSERT_TRUE(read.ok()) << read.error().message();
  TensorFile out = std::move(read).value();
  ASSERT_EQ(out.tensors.size(), 2U);
  EXPECT_EQ(out.tensors[0].shape, (std::vector<uint64_t>{2, 3}));
  EXPECT_EQ(asDouble(bpsFloat32, out.data.get(), 4), 5.5);
  EXPECT_EQ(asDouble(bpsInt64, out.dataOf(out.tensors[1]).data(), 1), -7);
}

TEST_F(TensorWorkload, DetectsADifferentExpectedValue) {
  writeExpected({8, -7, 1.5, 2.5, 3.5, 4.50001, 5.5, 0});
  const Ended ended = run();
  EXPECT_EQ(ended.codes, all(2, 7));
  EXPECT_THAT(ended.printed, HasSubstr("values beyond that : 1 FAILED"));
  EXPECT_THAT(ended.printed, HasSubstr("in w"));
}

TEST_F(TensorWorkload, ErrorsNameMismatchedFiles) {
  write("in_1", {{"w", bpsFloat32, {3, 2}, 0, 0}, {"n", bpsInt64, {2}, 0, 0}}, {1, 2, 3, 4, 5, 6}, {7, 8});
  const Ended ended = run();
  EXPECT_THAT(ended.failures[0], HasSubstr("in_0: its tensors' names, shapes or types"));
  EXPECT_THAT(ended.failures[1], HasSubstr("in_1: its tensors' names, shapes or types"));
}

TEST_F(TensorWorkload, AMissingFileEndsAllRanks) {
  std::filesystem::remove(file("in_1"));
  const Ended ended = run();
  EXPECT_THAT(ended.failures[0], HasSubstr("failed on another rank"));
  EXPECT_THAT(ended.failures[1], HasSubstr("in_1: No such file"));
}

TEST_F(TensorWorkload, RejectsAnExpectedFileWithOtherTensors) {
  options_.compare = file("in_0");
  EXPECT_THAT(run().failures[0], HasSubstr("is not of dtype F64"));
  options_.op = bpsMax;
  EXPECT_THAT(run().failures[0], HasSubstr("--compare goes with sum and avg"));
}

TEST(Comparison, AllowsOnlyTheErrorOfRounding) {
  const Tolerance tolerance{bpsFloat32, bpsSum, 4};
  const std::vector<double> expected = {1, 1, NAN}, magnitudes = {1, 1, 1};
  Deviation near;
  const std::vector<float> good = {1 + 0x1p-22F, 1 - 0x1p-22F, NAN};  // 1 +- 4*2^-24
  near.add("near", tolerance, good.data(), expected, magnitudes);
  EXPECT_EQ(near.outOfTolerance, 0U);
  EXPECT_EQ(near.relative, 0x1p-22);
  Deviation far;
  const std::vector<float> bad = {1 + 0x1.8p-22F, INFINITY, 1};
  far.add("far", tolerance, bad.data(), expected, magnitudes);
  EXPECT_EQ(far.outOfTolerance, 3U);
  EXPECT_EQ(far.tensor, "far");
}

TEST(Gradients, AreFiniteOfBothSignsAndDistinctPerRankAndTensor) {
  for (bpsDataType_t type : {bpsFloat64, bpsFloat32, bpsFloat16, bpsBfloat16, bpsFloat8e4m3, bpsFloat8e5m2}) {
    std::vector<uint8_t> mine(bytesOf(type) * 1000), other(mine.size()), next(mine.size());
    fillGradients(type, 0, 0, mine);
    fillGradients(type, 1, 0, other);
    fillGradients(type, 0, 1, next);
    EXPECT_NE(mine, other);
    EXPECT_NE(mine, next);
    int negative = 0;
    for (size_t i = 0; i < 1000; ++i) {
      EXPECT_LE(std::abs(asDouble(type, mine.data(), i)), 1);
      negative += asDouble(type, mine.data(), i) < 0 ? 1 : 0;
    }
    EXPECT_NEAR(negative, 500, 100);
  }
}

}  // namespace
}  // namespace bps::perf
