// With BPS_CHECKSUM=1, one flipped bit anywhere in the data streams ends every rank with an error.
// The error names the two ends of the connection. The flipped bit is in a frame, a header or data,
// of a contribution or of an answer. With BPS_TEST_LONG=1, the test flips a thousand bits.
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>
#include <sstream>

#include "src/base/format.h"
#include "src/base/log.h"
#include "tests/inproc/corruption/stream_tap.h"
#include "tests/support/cluster.h"
#include "tests/support/data.h"

namespace bps::test {
namespace {

constexpr size_t kServers = 2;
constexpr int kMostCalls = 3000;

using Random = std::mt19937_64;
uint64_t below(Random& random, uint64_t end) { return random() % end; }

// Sets the environment variables that the net plugin reads, for one case.
class Sockets {
 public:
  explicit Sockets(uint64_t each) {
    ::setenv("NCCL_SHM_DISABLE", "1", 1);
    ::setenv("NCCL_NSOCKS_PERTHREAD", std::to_string(each).c_str(), 1);
  }
  Sockets(const Sockets&) = delete;
  Sockets& operator=(const Sockets&) = delete;
  ~Sockets() {
    ::unsetenv("NCCL_SHM_DISABLE");
    ::unsetenv("NCCL_NSOCKS_PERTHREAD");
  }
};

struct Case {
  Job job;
  uint64_t sockets = 1, byte = 0;
  unsigned bit = 0;
  size_t count = 0;  // the number of elements of a call
};

Case makeCase(uint64_t seed, const std::string& servers) {
  Random random(seed);
  Case made;
  made.job.ranks = 2 + below(random, 3);
  for (size_t left = made.job.ranks; left > 0; left -= made.job.machines.back())
    made.job.machines.push_back(below(random, 4) == 0 && left < made.job.ranks ? 1 + below(random, left) : 1);
  const uint64_t used = below(random, kServers + 1);
  made.job.servers = used == kServers ? servers : servers.substr(0, used == 0 ? 0 : servers.find(','));
  made.job.env.checksum = true;
  made.job.env.timeout.value = 4;
  constexpr uint64_t kLimits[] = {0, 4096, uint64_t{1} << 30};
  made.job.env.exchangeBytes.value = kLimits[below(random, std::size(kLimits))];
  made.job.env.singleOwnerBytes.value = kLimits[below(random, std::size(kLimits))];
  made.job.env.rails = static_cast<int>(below(random, 3));
  made.job.env.bandwidth.value = below(random, 2) == 0 ? 1 : 100;  // known rates make bps skip the measurement
  // In small calls, most bytes belong to frames and headers.
  constexpr size_t kCounts[] = {1, 20, 3000, 200000};
  made.count = kCounts[below(random, std::size(kCounts))];
  made.sockets = 1 + below(random, 3);
  made.byte = below(random, 2000 + 40 * made.count);
  made.bit = static_cast<unsigned>(below(random, 8));
  return made;
}

constexpr int kCallsPerRound = 50;

// Makes calls until one call fails or a server is lost, which the calls survive. Arms the tap while all connections are
// idle. Returns the failure, or the reason of the loss.
Status callOn(Communicator& comm, const Case& made) {
  logThreadName(fmt::format("rank {}", comm.rank()));
  BPS_TRY(comm.allGather({}));
  if (comm.rank() == 0) armTap(made.byte, made.bit);
  BPS_TRY(comm.allGather({}));
  const auto stream = HostStream::create();
  std::vector<float> from(made.count, 1), to(made.count);
  Status failed;
  for (int i = 0; i < kMostCalls && failed.ok(); ++i) {
    float* target = i % 2 == 0 ? to.data() : from.data();
    std::fill_n(to.data(), made.count, 0.F);
    failed = comm.allReduce({from.data(), target, made.count, DataType::kFloat32, CallOp::kMax, 0, nullptr, stream});
    if (failed.ok()) failed = stream->synchronize();
    if (failed.ok() && !std::all_of(target, target + made.count, [](float value) { return value == 1; }))
      failed = failure(Code::kInternal, "wrong value in call {}", i);
    if (!failed.ok() || i % kCallsPerRound != kCallsPerRound - 1) continue;
    Result<std::vector<Blob>> lost = comm.allGather(Blob(comm.latestServerLoss().empty() ? 0 : 1));
    if (!lost.ok()) failed = std::move(lost).status();
    else if (std::move(lost).value() != std::vector<Blob>(comm.nRanks())) break;  // all ranks see the same
  }
  HostStream::destroy(stream.get());
  const std::string loss = comm.latestServerLoss();
  if (failed.ok() && !loss.empty()) return {Code::kRemote, loss};
  return failed;
}

// Returns whether the text at this position names `who`. `who` is a rank such as "rank 2", or
// "lanes" for a server.
bool isNamed(const std::string& text, size_t at, const std::string& who) {
  return text.compare(at, who == "lanes" ? 7 : who.size() + 2, who == "lanes" ? "server " : who + " (") == 0;
}

std::string verify(const Flip& flip, const std::vector<Status>& outcomes) {
  if (!flip.done) return "no byte was reached";
  const std::string link = "connection of ", with = " with ";
  for (const Status& outcome : outcomes) {
    const std::string text = outcome.message();
    if (outcome.code() != Code::kRemote) return outcome.ok() ? "not noticed by all" : "not a remote error";
    if (text != outcomes.front().message()) return "not the same for all";
    const size_t at = text.find(link), second = text.find(with);
    if (text.find("corrupt") == std::string::npos || at == std::string::npos || second == std::string::npos)
      return "not a corrupt connection";
    if (!isNamed(text, at + link.size(), flip.receiver) || !isNamed(text, second + with.size(), flip.sender))
      return "not the right ends";
  }
  return {};
}

TEST(Corruption, FlippedBitIsReportedWithBothEndsOfTheConnection) {
  const bool isLong = std::getenv("BPS_TEST_LONG") != nullptr;
  const char* first = std::getenv("BPS_TEST_SEED");
  const uint64_t start = first != nullptr ? std::stoull(first) : 1;
  const char* count = std::getenv("BPS_TEST_CASES");
  const uint64_t cases = count != nullptr ? std::stoull(count) : kSanitized ? 10 : isLong ? 1000 : 30;
  const Servers servers(kServers);
  size_t wrong = 0;
  for (uint64_t seed = start; seed < start + cases; ++seed) {
    const Case made = makeCase(seed, servers.list());
    const Sockets sockets(made.sockets);
    const std::vector<Status> outcomes = runRanks(made.job, [&](Communicator& comm) { return callOn(comm, made); });
    const Flip flip = disarmTap();
    const std::string verdict = verify(flip, outcomes);
    if (verdict.empty()) continue;
    ++wrong;
    ADD_FAILURE() << verdict << ": seed " << seed << ", bit " << made.bit << " of byte " << made.byte << ", calls of "
                  << made.count << ", from " << flip.sender << " to " << flip.receiver << "\n"
                  << failures(outcomes);
  }
  std::printf("%zu of %zu flipped bits, seeds %zu to %zu, reported correctly\n", static_cast<size_t>(cases) - wrong,
              static_cast<size_t>(cases), static_cast<size_t>(start), static_cast<size_t>(start + cases - 1));
}

}  // namespace
}  // namespace bps::test
