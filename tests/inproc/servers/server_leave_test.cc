// A server that leaves a running communicator (SIGTERM) and is lost before it has left.
#include <gtest/gtest.h>

#include <thread>

#include "tests/support/cluster.h"

namespace bps::test {
namespace {

using namespace std::chrono_literals;

struct Call {
  std::vector<float> data;
  std::shared_ptr<HostStream> stream = HostStream::create();

  Status begin(Communicator& comm, size_t count) {
    data.assign(count, static_cast<float>(comm.rank() + 1));
    auto* const bytes = reinterpret_cast<uint8_t*>(data.data());
    return comm.allReduce({bytes, bytes, count, DataType::kFloat32, CallOp::kSum, {}, nullptr, stream});
  }
  Status end() {
    BPS_TRY(stream->synchronize());
    for (const float sum : data)
      if (sum != 6) return {Code::kInternal, "wrong sum"};
    return {};
  }
};

// Ranks 0 and 1 have given up the server, while rank 2 has not begun the call from which on it is absent.
TEST(ServerLeave, AServerMayDieWhileSomeRanksStillUseIt) {
  Servers servers(2);
  Job job;
  job.ranks = 3;
  job.servers = servers.list();
  const auto outcomes = runRanks(job, [&](Communicator& comm) -> Status {
    constexpr size_t kLarge = 1 << 20, kSmall = 1;  // a small call uses no server
    Call large, small, last;
    BPS_TRY(large.begin(comm, kLarge));
    BPS_TRY(large.end());
    if (comm.rank() != 2) {
      BPS_TRY(small.begin(comm, kSmall));
    } else {
      std::this_thread::sleep_for(300ms);
      servers.drain(1);
      std::this_thread::sleep_for(1s);
      servers.stop(1);
      for (int turn = 0; turn < 500 && comm.latestServerLoss().empty(); ++turn) std::this_thread::sleep_for(10ms);
      if (comm.latestServerLoss().empty()) return {Code::kInternal, "the server was not lost"};
      BPS_TRY(small.begin(comm, kSmall));
    }
    BPS_TRY(small.end());
    BPS_TRY(last.begin(comm, kLarge));
    return last.end();
  });
  EXPECT_EQ(failures(outcomes), "");
}

}  // namespace
}  // namespace bps::test
