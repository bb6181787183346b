// Ranks and servers use a net plugin that delays, refuses and fails (tests/fault_plugin). Harmless
// faults change no bit of any result. After any other fault, every rank fails within the timeout,
// and its error gives the reason. The servers can then serve the next job.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cstdlib>

#include "src/base/format.h"
#include "src/net/plugin_adapter.h"
#include "tests/support/cluster.h"
#include "tests/support/data.h"
#include "tests/unit/net/net_fixture.h"

namespace bps::test {
namespace {

constexpr size_t kRanks = 4;
constexpr uint64_t kAllOnExchangePath = 1U << 30;  // calls of any size use the exchange path

std::string faultPlugin() {
  std::array<char, PATH_MAX> path{};
  const ssize_t length = ::readlink("/proc/self/exe", path.data(), path.size() - 1);
  const std::string program(path.data(), length > 0 ? static_cast<size_t>(length) : 0);
  return program.substr(0, program.rfind('/')) + "/libnccl-net-fault.so";
}

Env faultyEnv() {
  Env env = testEnv();
  env.timeout.value = 8;
  // All ranks and servers are in this process. If other programs use the CPUs, a sanitized build may be silent for
  // seconds, and a server must not be lost for that reason here.
  if (kSanitized) env.serverTimeout.value = 6;
  env.netPlugin = faultPlugin();
  env.partitionBytes.value = 20480;  // gives small calls many chunks, of a size that the exchange path does not copy
  return env;
}

// Sets the plugin's faults for communicators that start later.
void inject(const std::string& spec, uint64_t seed) {
  ::setenv("FAULT_PLUGIN_SPEC", spec.c_str(), 1);
  ::setenv("FAULT_PLUGIN_SEED", std::to_string(seed).c_str(), 1);
}

// An all-reduce with the inputs of all ranks and the expected result.
struct PreparedCall {
  DataType type;
  CallOp op;
  size_t count;
  std::vector<Bytes> inputs;
  Bytes want;
};

PreparedCall prepare(DataType type, CallOp op, size_t count, uint64_t seed) {
  PreparedCall p{type, op, count, {}, {}};
  for (size_t rank = 0; rank < kRanks; ++rank) p.inputs.push_back(makeInput(type, count, rank, seed));
  p.want = expected({type, op, count, kRanks, 1}, p.inputs, std::vector<ScalarBits>(kRanks));
  return p;
}

std::vector<PreparedCall> someCalls(uint64_t seed) {
  const auto type = static_cast<DataType>(seed % kDataTypes);
  return {prepare(type, CallOp::kSum, 1, seed), prepare(DataType::kFloat32, CallOp::kAvg, 1031, seed),
          prepare(type, CallOp::kMax, 0, seed), prepare(DataType::kBfloat16, CallOp::kSum, 70001, seed),
          prepare(type, CallOp::kSum, 5000, seed)};
}

// Issues all calls at once, every second call in place. Then compares the results.
Status callAndCheck(Communicator& comm, const std::vector<PreparedCall>& calls) {
  const auto stream = HostStream::create();
  std::vector<Bytes> send, recv;
  for (const PreparedCall& p : calls) {
    send.push_back(p.inputs[comm.rank()]);
    send.back().resize(send.back().size() + 1);  // a valid address even if the call has no elements
    recv.emplace_back(send.back().size());
  }
  Status issued;
  for (size_t i = 0; i < calls.size() && issued.ok(); ++i) {
    uint8_t* to = i % 2 == 0 ? send[i].data() : recv[i].data();
    issued = comm.allReduce({send[i].data(), to, calls[i].count, calls[i].type, calls[i].op, 0, nullptr, stream});
  }
  Status done = stream->synchronize();
  HostStream::destroy(stream.get());
  BPS_TRY(std::move(issued));
  BPS_TRY(std::move(done));
  for (size_t i = 0; i < calls.size(); ++i) {
    Bytes& got = i % 2 == 0 ? send[i] : recv[i];
    got.pop_back();
    if (got != calls[i].want) return failure(Code::kInternal, "wrong result of call {}", i);
  }
  return {};
}

class FaultPlugin : public testing::Test {
 protected:
  ~FaultPlugin() override { inject("", 0); }

  std::vector<Status> run(const std::vector<PreparedCall>& calls, int repeats = 1) {
    Job job;
    job.ranks = kRanks;
    job.env = env_;
    job.servers = servers_.list();
    loss_.clear();
    return runRanks(job, [&](Communicator& comm) -> Status {
      for (int i = 0; i < repeats; ++i) BPS_TRY(callAndCheck(comm, calls));
      if (comm.rank() == 0) loss_ = comm.latestServerLoss();
      return {};
    });
  }

  // Returns the outcomes. If all calls succeeded because they went on without a server, the outcomes are its loss.
  std::vector<Status> withLosses(std::vector<Status> outcomes) const {
    if (loss_.empty() || !failures(outcomes).empty()) return outcomes;
    for (Status& outcome : outcomes) outcome = Status(Code::kRemote, loss_);
    return outcomes;
  }

  // Expects that every rank fails with the reason, and that every rank except the faulty rank names
  // the culprit, or that all calls succeed without a server, which is lost for the reason. Then expects that a job
  // without faults succeeds on the same servers.
  void expectFatal(const std::string& spec, uint64_t seed) {
    inject(spec, seed);
    const std::vector<PreparedCall> calls = someCalls(seed);
    const std::vector<Status> outcomes = withLosses(run(calls, 50));
    size_t unnamed = 0;
    for (size_t rank = 0; rank < outcomes.size(); ++rank) {
      const std::string text = outcomes[rank].message();
      EXPECT_FALSE(outcomes[rank].ok()) << spec << ": rank " << rank << " met no error";
      if (text.find("rank ") == std::string::npos && text.find("server ") == std::string::npos) ++unnamed;
      // If a connection breaks on one side only, the hub may notice the stall first, and then it names both ends.
      const bool stalled = spec.find("oneside") != std::string::npos && text.find("cannot reach") != std::string::npos;
      EXPECT_TRUE(text.find("injected") != std::string::npos || text.find("closed") != std::string::npos || stalled)
          << spec << ": rank " << rank << ": " << text;
    }
    // A fault with a probability may hit every rank, and each then reports its own.
    const size_t culprits = spec.find("p=") == std::string::npos ? 1 : kRanks;
    EXPECT_LE(unnamed, culprits) << spec << ":\n" << failures(outcomes);
    inject("", seed);
    EXPECT_EQ(failures(run(calls)), "") << "after " << spec;
  }

  Env env_ = faultyEnv();
  std::string loss_;  // of a server in the last run
  Servers servers_{2, faultyEnv()};
};

constexpr const char* kHarmless[] = {
    "delay:p=0.2,us=300",
    "busy:p=0.3",
    "slow:p=0.7,polls=100;busy:p=0.1",
    "delay:p=0.01,us=10000",
    "nowait;delay:p=0.1,us=500;busy:p=0.1",
    "delay:p=0.5,us=50;busy:p=0.5;slow:p=0.2,polls=30",
};

TEST_F(FaultPlugin, HarmlessFaultsDoNotChangeResults) {
  for (uint64_t seed = 0; seed < (kSanitized ? 12 : 30); ++seed) {
    const std::string spec = kHarmless[seed % std::size(kHarmless)];
    inject(spec, seed);
    env_ = faultyEnv();
    if (seed % 3 == 0) env_.exchangeBytes.value = kAllOnExchangePath;
    EXPECT_EQ(failures(run(someCalls(seed))), "") << spec << ", seed " << seed;
  }
}

TEST_F(FaultPlugin, BrokenConnectionEndsAllRanks) {
  for (const int kilobytes : {1, 40, 300, 2000, 9000})
    expectFatal(fmt::format("disconnect:bytes={}K", kilobytes), static_cast<uint64_t>(kilobytes));
  env_.exchangeBytes.value = kAllOnExchangePath;
  expectFatal("disconnect:bytes=300K", 300);
}

TEST_F(FaultPlugin, ConnectionBrokenOnOneSideEndsAllRanks) {
  for (const int requests : {1, 7, 50, 51, 52, 53, 400, 3000})
    expectFatal(fmt::format("disconnect:requests={},oneside=1", requests), static_cast<uint64_t>(requests));
}

TEST_F(FaultPlugin, FailingCallEndsAllRanks) {
  for (const char* spec : {"fail:listen=12", "fail:connect=5", "fail:accept=9", "fail:regmr=2", "fail:regmr=60",
                           "fail:isend=100", "fail:irecv=300", "fail:test=1000", "error:p=0.0005", "refuse:first=1"})
    expectFatal(spec, 3);
}

// Ranks start after every server has either opened the job or been excluded.
TEST_F(FaultPlugin, ServerWithoutTransportIsExcluded) {
  for (const char* spec : {"fail:init=1", "fail:init=2", "fail:listen=3"}) {
    inject(spec, 1);
    EXPECT_EQ(failures(run(someCalls(1), 3)), "") << spec;
  }
}

// If one bit of one header is flipped, the bit is in an unused place, or every rank fails. The
// flipped bit never gives a wrong sum, and it never ends a server.
TEST_F(FaultPlugin, CorruptHeaderIsHarmlessOrEndsAllRanks) {
  const std::vector<PreparedCall> calls{prepare(DataType::kBfloat16, CallOp::kSum, 70001, 1)};
  constexpr uint64_t kSeeds = kSanitized ? 8 : 16;
  size_t fatal = 0;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const std::string spec = fmt::format("corrupt:at={},most=56", seed * seed);
    inject(spec, seed);
    const std::vector<Status> outcomes = withLosses(run(calls, 3));
    const auto failed = std::count_if(outcomes.begin(), outcomes.end(), [](const Status& s) { return !s.ok(); });
    EXPECT_TRUE(failed == 0 || failed == kRanks) << spec << ": " << failures(outcomes);
    fatal += failed == kRanks ? 1 : 0;
    inject("", seed);
    EXPECT_EQ(failures(run(calls)), "") << "after " << spec;
  }
  EXPECT_GE(fatal, kSeeds / 4);
}

// Every rank reports an error if a message is too short, whether the message is a header or data.
TEST_F(FaultPlugin, ShortMessageEndsAllRanks) {
  const std::vector<PreparedCall> calls{prepare(DataType::kBfloat16, CallOp::kSum, 70001, 1)};
  for (const char* spec : {"short:at=3,most=56", "short:at=2,least=57"}) {
    inject(spec, 1);
    const std::vector<Status> outcomes = withLosses(run(calls, 3));
    const auto failed = std::count_if(outcomes.begin(), outcomes.end(), [](const Status& s) { return !s.ok(); });
    EXPECT_EQ(failed, kRanks) << spec << ": " << failures(outcomes);
  }
  inject("", 1);
  EXPECT_EQ(failures(run(calls)), "");
}

// Tests the plugin alone, through the oldest version of the interface.
class FaultTable : public testing::Test {
 protected:
  void SetUp() override {
    inject("busy:p=0.5", 1);
    void* library = ::dlopen(faultPlugin().c_str(), RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library, nullptr) << ::dlerror();
    std::shared_ptr<net::PluginAdapter> adapter = valueOf(net::createPluginAdapter(library, faultPlugin(), 8));
    ASSERT_TRUE(adapter->init(1).ok());
    plugin_ = std::make_shared<net::Plugin>(adapter);
    pair_ = connectPair(*plugin_);
  }
  ~FaultTable() override { inject("", 0); }

  // Posts repeatedly until the plugin accepts the request.
  static Request post(Comm& comm, Bytes& data, void* memory, bool sends) {
    Request request;
    while (!request)
      request =
          valueOf(sends ? comm.isend(data.data(), data.size(), memory) : comm.irecv(data.data(), data.size(), memory));
    return request;
  }

  std::shared_ptr<net::Plugin> plugin_;
  CommPair pair_;
};

TEST_F(FaultTable, Version8TransfersMessages) {
  Bytes sent = makeInput(DataType::kUint8, 1000, 0), received(1000);
  const Request sending = post(*pair_.sender, sent, valueOf(pair_.sender->registerMemory(sent.data(), 1000)), true);
  const Request receiving =
      post(*pair_.receiver, received, valueOf(pair_.receiver->registerMemory(received.data(), 1000)), false);
  EXPECT_EQ(valueOf(finish(*pair_.sender, sending)), 1000U);
  EXPECT_EQ(valueOf(finish(*pair_.receiver, receiving)), 1000U);
  EXPECT_EQ(sent, received);
}

TEST_F(FaultTable, AbortsAProcessThatViolatesTheInterface) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  Bytes data(100);
  EXPECT_DEATH(post(*pair_.sender, data, nullptr, true), "100 bytes without registered memory");
  void* memory = valueOf(pair_.sender->registerMemory(data.data(), 50));
  EXPECT_DEATH(post(*pair_.sender, data, memory, true), "100 bytes that reach out of their 50");
  void* receiving = valueOf(pair_.receiver->registerMemory(data.data(), 100));
  const Request oldest = post(*pair_.receiver, data, receiving, false);
  const Request next = post(*pair_.receiver, data, receiving, false);
  EXPECT_TRUE(pair_.receiver->test(oldest).ok());
  EXPECT_DEATH([[maybe_unused]] auto r = pair_.receiver->test(next), "not the oldest");
  const auto goOn = [&] {
    pair_.receiver->deregister(receiving);
    [[maybe_unused]] auto r = pair_.receiver->test(oldest);
  };
  EXPECT_DEATH(goOn(), "no close after it");
  pair_.receiver.reset();  // destroyed before the data of the test fixture
}

}  // namespace
}  // namespace bps::test
