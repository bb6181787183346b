// Tests what the ranks say if a machine dies through which the control connection of another machine leads.
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>

#include "src/control/relay/relay_member.h"
#include "tests/support/temp_path.h"
#include "tests/unit/control/cluster.h"

namespace bps::test {
namespace {

constexpr double kTimeout = 3;

// Four machines of BCube(2,2). Rank 3 is a process of its own, which dials through the relay of rank 0. Rank 2 dials
// directly and has no relay. So the connection of rank 1 leads through rank 3. The hub sees the loss of rank 1 first if
// both connections break at the same time.
class LostRelay : public testing::TestWithParam<int> {
 protected:
  LostRelay() : addresses_(tempPath("lost_relay")), port_(freeAddress().port()) {
    std::ofstream(addresses_) << "00 127.0.3.1 127.0.4.1\n10 127.0.3.2 127.0.4.2\n01 127.0.3.3 127.0.4.3\n"
                                 "11 127.0.3.4 127.0.4.4\n";
  }
  ~LostRelay() override {
    if (child_ > 0) {
      ::kill(child_, SIGKILL);
      ::waitpid(child_, nullptr, 0);
    }
    ::unlink(addresses_.c_str());
  }

  Env envOf(uint32_t rank) const {
    Env env = localEnv(kTimeout);
    env.fabric = "bcube:n=2,k=2,addresses=" + addresses_ + ",address=" + std::array{"00", "11", "01", "10"}[rank];
    if (rank != 2) env.fabric += ",relay=" + std::to_string(port_);
    return env;
  }
  JoinArgs argsOf(const UniqueId& id, uint32_t rank) const {
    JoinArgs args{id, rank, 4, "machine " + std::to_string(rank)};
    args.direct = rank % 2 == 0;
    return args;
  }
  // Forks before this process has threads.
  void startRank3() {
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    child_ = ::fork();
    if (child_ == 0) runRank3(ends[0]);
    ::close(ends[0]);
    id_ = newId(localEnv(kTimeout));
    const auto bytes = id_.bytes();
    ASSERT_EQ(::write(ends[1], bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
    ::close(ends[1]);
  }
  void joinOthers() {
    std::vector<std::jthread> threads;
    for (const uint32_t r : {0U, 1U, 2U})
      threads.emplace_back([&, r] {
        auto plane = joinPlane(envOf(r), argsOf(id_, r), soon(kTimeout), ranks_[r].failures.sink());
        if (plane.ok()) ranks_[r].plane = std::move(plane).value();
        else ranks_[r].joined = std::move(plane).status();
      });
  }

  const std::string addresses_;
  const uint16_t port_;
  pid_t child_ = 0;
  UniqueId id_;
  std::array<Rank, 4> ranks_;

 private:
  [[noreturn]] void runRank3(int pipe) const {
    std::array<uint8_t, kUniqueIdBytes> bytes{};
    if (::read(pipe, bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size())) ::_exit(1);
    auto id = UniqueId::parse(bytes);
    if (!id.ok()) ::_exit(2);
    FailureRecorder failures;
    auto plane = joinPlane(envOf(3), argsOf(std::move(id).value(), 3), soon(kTimeout), failures.sink());
    if (!plane.ok()) ::_exit(3);
    while (true) ::pause();
  }
};

TEST_P(LostRelay, IsBlamedByAllRanks) {
  startRank3();
  joinOthers();
  for (const size_t r : {0, 1, 2}) ASSERT_TRUE(ranks_[r].joined.ok()) << r << ": " << ranks_[r].joined.message();
  const std::string name = ranks_[0].plane->roster().rankName(3), hub = ranks_[0].plane->roster().rankName(0);
  ::kill(child_, GetParam());
  for (const size_t r : {0, 2}) {
    const std::string text = ranks_[r].failures.wait(kTimeout);
    EXPECT_TRUE(text.starts_with(name + (GetParam() == SIGKILL ? " ended without goodbye" : " has been silent for")))
        << text;
  }
  const std::string text = ranks_[1].failures.wait(kTimeout);
  EXPECT_TRUE(text.starts_with("the connection to " + hub + " leads through rank 3 (")) << text;
  EXPECT_TRUE(contains(text, ", then rank 0 (")) << text;
  EXPECT_TRUE(contains(text, "), and broke: ")) << text;
}

INSTANTIATE_TEST_SUITE_P(Signals, LostRelay, testing::Values(SIGKILL, SIGSTOP));

}  // namespace
}  // namespace bps::test
