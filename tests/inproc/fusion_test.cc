// Small calls of a group, which fuse into one call, through the public interface. One thread runs all
// ranks.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "bps/bps.h"
#include "src/plan/constants.h"
#include "tests/support/cluster.h"
#include "tests/support/data.h"

namespace bps::test {
namespace {

struct Shape {
  size_t ranks, perMachine, servers;
  const char* shmDisable;
};

// Holds non-blocking communicators, because one thread starts ranks of several machines.
class Fusion : public testing::TestWithParam<Shape> {
 protected:
  void SetUp() override {
    servers_ = std::make_unique<Servers>(GetParam().servers);
    const std::string list = servers_->list();
    for (const auto& [name, value] : {std::pair{"BPS_SOCKET_IFNAME", "lo"}, {"BPS_AUTH", "off"}, {"BPS_TIMEOUT", "8"}})
      ::setenv(name, value, 1);
    ::setenv("NCCL_SHM_DISABLE", GetParam().shmDisable, 1);
    if (!list.empty()) ::setenv("BPS_SERVERS", list.c_str(), 1);
    startRanks();
    for (const char* name : {"NCCL_SHM_DISABLE", "BPS_SERVERS", "BPS_HOSTID"}) ::unsetenv(name);
  }
  void TearDown() override {
    for (const bpsComm_t comm : comms_)
      if (comm != nullptr) bpsCommAbort(comm);
    ::setenv("BPS_TIMEOUT", "6", 1);
  }
  void startRanks() {
    bpsUniqueId id;
    bpsConfig_t config = BPS_CONFIG_INITIALIZER;
    config.blocking = 0;
    ASSERT_EQ(bpsGetUniqueId(&id), bpsSuccess);
    comms_.resize(GetParam().ranks);
    // The threads of the first ranks may read the variable of the later ranks, so all strings exist before them.
    for (size_t r = 0; r < ranks(); ++r)
      hostIds_.push_back("BPS_HOSTID=machine" + std::to_string(r / GetParam().perMachine));
    for (size_t r = 0; r < ranks(); ++r) {
      ::putenv(hostIds_[r].data());
      ASSERT_EQ(bpsCommInitRankConfig(&comms_[r], static_cast<int>(ranks()), id, static_cast<int>(r), &config),
                bpsInProgress);
    }
    for (const bpsComm_t comm : comms_) {
      bpsResult_t state = bpsInProgress;
      while (state == bpsInProgress) ASSERT_EQ(bpsCommGetAsyncError(comm, &state), bpsSuccess);
      ASSERT_EQ(state, bpsSuccess) << bpsGetLastError(comm);
    }
  }
  size_t ranks() const { return GetParam().ranks; }
  void call(size_t rank, const void* send, void* recv, size_t count, bpsDataType_t type = bpsFloat32) {
    expectIssued(bpsAllReduce(send, recv, count, type, bpsSum, comms_[rank], nullptr));
  }
  // A call may already return the failure of an earlier call.
  static void expectIssued(bpsResult_t result) { EXPECT_TRUE(result == bpsSuccess || result == bpsInvalidUsage); }
  // Expects that all ranks fail, and that the error of each rank contains the texts.
  void expectFailure(const std::vector<std::string>& texts) {
    EXPECT_EQ(bpsHostStreamSynchronize(nullptr), bpsInvalidUsage);
    for (const bpsComm_t comm : comms_) {
      bpsResult_t state = bpsSuccess;
      for (int i = 0; i < 5000 && state == bpsSuccess; ++i) {
        EXPECT_EQ(bpsCommGetAsyncError(comm, &state), bpsSuccess);
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      EXPECT_EQ(state, bpsInvalidUsage);
      for (const std::string& text : texts)
        EXPECT_NE(std::string(bpsGetLastError(comm)).find(text), std::string::npos)
            << bpsGetLastError(comm) << "\n misses: " << text;
    }
    while (bpsHostStreamSynchronize(nullptr) != bpsSuccess) {  // takes the failures of all ranks
    }
  }
  std::unique_ptr<Servers> servers_;
  std::vector<bpsComm_t> comms_;
  std::vector<std::string> hostIds_;
  float values_[8][64] = {};
};

struct OneCall {
  DataType type;
  int op;
  size_t count;
  bool inPlace;
};

// Every type and operation, with odd counts. Successive calls have different types and operations.
std::vector<OneCall> mixedCalls() {
  std::vector<OneCall> calls;
  const size_t counts[] = {1, 0, 255, 3, 1000, 7, 0, 64};
  for (size_t i = 0; i < 3; ++i)
    for (int op = 0; op < bpsNumOps; ++op)
      for (int type = 0; type < kDataTypes; ++type)
        calls.push_back(
            {static_cast<DataType>(type), op, counts[calls.size() % std::size(counts)], (calls.size() + i) % 2 == 0});
  calls.push_back({DataType::kFloat32, bpsSum, 50000, true});  // a call that is too large to fuse
  for (size_t i = 0; i < 3; ++i) calls.push_back({DataType::kFloat32, bpsSum, 11 + i, false});
  return calls;
}

// Makes the calls on all ranks, and returns all receive buffers.
std::vector<Bytes> reduceAll(const std::vector<OneCall>& calls, const std::vector<bpsComm_t>& comms, bool grouped) {
  std::vector<Bytes> send, recv;
  for (const OneCall& one : calls)
    for (size_t r = 0; r < comms.size(); ++r) {
      send.push_back(makeInput(one.type, one.count, r, send.size()));
      recv.push_back(one.inPlace ? send.back() : Bytes(send.back().size()));
    }
  if (grouped) bpsGroupStart();
  for (size_t i = 0; i < send.size(); ++i) {
    const OneCall& one = calls[i / comms.size()];
    uint8_t spare = 0;  // a valid address even if the call has no elements
    uint8_t* to = recv[i].empty() ? &spare : recv[i].data();
    const uint8_t* from = one.inPlace || send[i].empty() ? to : send[i].data();
    EXPECT_EQ(bpsAllReduce(from, to, one.count, static_cast<bpsDataType_t>(one.type), static_cast<bpsRedOp_t>(one.op),
                           comms[i % comms.size()], nullptr),
              bpsSuccess);
  }
  EXPECT_EQ(grouped ? bpsGroupEnd() : bpsSuccess, bpsSuccess);
  EXPECT_EQ(bpsHostStreamSynchronize(nullptr), bpsSuccess) << bpsGetLastError(comms[0]);
  return recv;
}

TEST_P(Fusion, SumsHaveTheBitsOfSeparateCalls) {
  const std::vector<OneCall> calls = mixedCalls();
  const std::vector<Bytes> separate = reduceAll(calls, comms_, false);
  for (int round = 0; round < 3; ++round) {
    const std::vector<Bytes> fused = reduceAll(calls, comms_, true);
    for (size_t i = 0; i < fused.size(); ++i) ASSERT_EQ(fused[i], separate[i]) << "buffer " << i;
  }
  for (bpsComm_t& comm : comms_) EXPECT_EQ(bpsCommFinalize(comm), bpsInProgress);
}

TEST_P(Fusion, CallsReadTheSumsOfEarlierCallsOfTheGroup) {
  ASSERT_EQ(bpsGroupStart(), bpsSuccess);
  for (size_t r = 0; r < ranks(); ++r) {
    float* const v = values_[r];
    v[0] = 1;
    call(r, v, v, 8);
    call(r, v + 16, v + 24, 8);
    call(r, v, v, 8);
    call(r, v, v + 32, 8);
    call(r, v + 40, v, 8);  // writes what the call before reads
  }
  ASSERT_EQ(bpsGroupEnd(), bpsSuccess);
  ASSERT_EQ(bpsHostStreamSynchronize(nullptr), bpsSuccess);
  const auto n = static_cast<float>(ranks());
  for (size_t r = 0; r < ranks(); ++r) {
    EXPECT_EQ(values_[r][0], 0);
    EXPECT_EQ(values_[r][32], n * n * n);
  }
}

TEST_P(Fusion, FusedCallsWaitForEarlierCallsOfTheirStreams) {
  std::vector<std::vector<float>> large(ranks(), std::vector<float>(1 << 20, 1));
  bpsHostStream_t streams[2];
  for (bpsHostStream_t& stream : streams) ASSERT_EQ(bpsHostStreamCreate(&stream), bpsSuccess);
  for (size_t r = 0; r < ranks(); ++r)
    ASSERT_EQ(
        bpsAllReduce(large[r].data(), large[r].data(), large[r].size(), bpsFloat32, bpsSum, comms_[r], streams[1]),
        bpsSuccess);
  ASSERT_EQ(bpsGroupStart(), bpsSuccess);
  for (size_t r = 0; r < ranks(); ++r)
    for (const bool second : {false, true})
      ASSERT_EQ(bpsAllReduce(&large[r][second ? (1 << 20) - 1 : 0], &values_[r][second ? 1 : 0], second ? 1 : 0,
                             bpsFloat32, bpsSum, comms_[r], streams[second]),
                bpsSuccess);
  ASSERT_EQ(bpsGroupEnd(), bpsSuccess);
  for (bpsHostStream_t stream : streams) {
    ASSERT_EQ(bpsHostStreamSynchronize(stream), bpsSuccess);
    EXPECT_EQ(bpsHostStreamQuery(stream), bpsSuccess);
    EXPECT_EQ(bpsHostStreamDestroy(stream), bpsSuccess);
  }
  for (size_t r = 0; r < ranks(); ++r) EXPECT_EQ(values_[r][1], static_cast<float>(ranks() * ranks()));
}

// Rank 0 makes its first call outside the group, and the other ranks fuse this call with the others.
TEST_P(Fusion, GroupedAndSeparateCallsFailAllRanks) {
  call(0, values_[0], values_[0], 1);
  ASSERT_EQ(bpsGroupStart(), bpsSuccess);
  for (size_t r = 0; r < ranks(); ++r)
    for (size_t i = r == 0 ? 1 : 0; i < 4; ++i) call(r, values_[r] + 8 * i, values_[r] + 8 * i, 1 + i);
  expectIssued(bpsGroupEnd());
  expectFailure(
      {"rank 0 (", "#0 of 1 float32, sum, not in a group with this #1", "#1 of 2 float32, sum, in a group with #0"});
}

TEST_P(Fusion, TheDifferentCallOfAGroupIsNamed) {
  for (size_t r = 0; r < ranks(); ++r) call(r, values_[r], values_[r], 1);
  ASSERT_EQ(bpsGroupStart(), bpsSuccess);
  for (size_t r = 0; r < ranks(); ++r)
    for (size_t i = 1; i < 4; ++i) {
      // Both ranks have the same total.
      const bool odd = r + 1 == ranks() && i != 1;
      call(r, values_[r] + 8 * i, values_[r] + 8 * i, odd ? (i == 2 ? 6 : 4) : 5);
    }
  expectIssued(bpsGroupEnd());
  expectFailure({"rank " + std::to_string(ranks() - 1) + " (", "all-reduce #2 of 5 float32, sum",
                 "all-reduce #2 of 6 float32, sum"});
}

TEST_P(Fusion, ADifferentTypeInAGroupIsNamed) {
  ASSERT_EQ(bpsGroupStart(), bpsSuccess);
  for (size_t r = 0; r < ranks(); ++r)
    for (size_t i = 0; i < 3; ++i)
      call(r, values_[r] + 8 * i, values_[r] + 8 * i, 5, r == 0 && i == 1 ? bpsInt32 : bpsFloat32);
  expectIssued(bpsGroupEnd());
  expectFailure({"rank 0 (", "all-reduce #1 of 5 float32, sum, in a group with #0"});
}

// The numbers in error texts count the calls of the application.
TEST_P(Fusion, CallsAfterAGroupKeepTheirNumbers) {
  ASSERT_EQ(bpsGroupStart(), bpsSuccess);
  for (size_t r = 0; r < ranks(); ++r)
    for (size_t i = 0; i < 5; ++i)
      call(r, values_[r] + 8 * i, values_[r] + 8 * i, 5, i % 2 == 0 ? bpsInt32 : bpsFloat32);
  expectIssued(bpsGroupEnd());
  for (size_t r = 0; r < ranks(); ++r) call(r, values_[r], values_[r], r == 0 ? 2 : 3);
  expectFailure({"all-reduce #5 of 2 float32, sum", "all-reduce #5 of 3 float32, sum"});
}

TEST_P(Fusion, AbortEndsTheCallsOfAGroup) {
  values_[0][0] = values_[0][8] = 5;
  ASSERT_EQ(bpsGroupStart(), bpsSuccess);
  for (size_t i = 0; i < 2; ++i) call(0, values_[0] + 8 * i, values_[0] + 8 * i, 1);
  ASSERT_EQ(bpsGroupEnd(), bpsSuccess);
  EXPECT_EQ(bpsHostStreamQuery(nullptr), bpsInProgress);
  EXPECT_EQ(bpsCommAbort(std::exchange(comms_[0], nullptr)), bpsSuccess);
  EXPECT_EQ(bpsHostStreamQuery(nullptr), bpsSuccess);
  EXPECT_NE(bpsHostStreamSynchronize(nullptr), bpsSuccess);
  EXPECT_EQ(values_[0][0], 5);
  EXPECT_EQ(values_[0][8], 5);
}

TEST(FusedCallCounts, IncludeEveryCallOfTheApplication) {
  Job job;
  job.ranksPerMachine = 2;
  EXPECT_EQ(failures(runRanks(job,
                              [](Communicator& comm) -> Status {
                                float values[3] = {};
                                std::vector<AllReduceCall> calls;
                                uint64_t number = comm.reserveNumbers(3);
                                for (float& value : values)
                                  calls.push_back({&value, &value, 1, DataType::kFloat32, CallOp::kSum, 0, nullptr,
                                                   HostStream::find(nullptr), nullptr, number++});
                                BPS_TRY(comm.allReduceFused(calls));
                                BPS_TRY(HostStream::find(nullptr)->synchronize());
                                EXPECT_NE(comm.describeTraffic().find("\"calls\": 3"), std::string::npos)
                                    << comm.describeTraffic();
                                return {};
                              })),
            "");
}

std::string shapeName(const testing::TestParamInfo<Shape>& info) {
  return "ranks" + std::to_string(info.param.ranks) + "perMachine" + std::to_string(info.param.perMachine) + "servers" +
         std::to_string(info.param.servers) + (info.param.shmDisable[0] == '1' ? "tcp" : "shm");
}

INSTANTIATE_TEST_SUITE_P(Shapes, Fusion,
                         testing::Values(Shape{2, 1, 0, "1"}, Shape{3, 1, 0, "0"}, Shape{3, 3, 0, "0"},
                                         Shape{4, 2, 1, "1"}, Shape{2, 1, 2, "0"}),
                         shapeName);

}  // namespace
}  // namespace bps::test
