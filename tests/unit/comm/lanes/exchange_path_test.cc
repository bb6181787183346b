// Tests ExchangePath with all machines of a communicator: the sums, and the calls on which machines disagree.
#include "src/comm/lanes/exchange_path.h"

#include <random>

#include "tests/unit/comm/lanes/exchange_machines.h"

namespace bps::test {
namespace {

class ExchangePathTest : public testing::TestWithParam<size_t> {
 protected:
  size_t n() const { return GetParam(); }
  size_t stepsOf(size_t machines) const {
    size_t steps = 0;
    while ((size_t{1} << steps) < machines) ++steps;
    return steps;
  }
  // Expects that each failure names two machines, of which exactly one is in `odd`, and both calls.
  void expectDisagreement(const std::vector<bool>& odd, const CallInfo& common, const CallInfo& other) {
    const std::vector<std::string> failures = all_->failures();
    EXPECT_FALSE(failures.empty());
    for (const std::string& text : failures) {
      const auto callOf = [&](size_t m) { return describe(odd[m] ? other : common); };
      bool named = false;
      for (size_t a = 0; a < n(); ++a)
        for (size_t b = 0; b < n(); ++b)
          named = named ||
                  (odd[a] != odd[b] && text == "ranks disagree: machine " + std::to_string(a) + " called " + callOf(a) +
                                                   ", but machine " + std::to_string(b) + " called " + callOf(b));
      EXPECT_TRUE(named) << text;
    }
  }

  void connect() { all_ = std::make_unique<ExchangeMachines>(n()); }

  std::unique_ptr<ExchangeMachines> all_ = std::make_unique<ExchangeMachines>(GetParam());
};

TEST_P(ExchangePathTest, EveryMachineGetsTheSumOfAllContributions) {
  for (const auto& [chunks, bytes] : {std::pair{1UL, 8UL}, {1UL, 0UL}, {1UL, 20000UL}, {5UL, 100UL}, {6UL, 17000UL}})
    for (const bool inPlace : {false, true}) {
      std::vector<Collective*> calls;
      for (size_t m = 0; m < n(); ++m) calls.push_back(&all_->add(m, chunks, bytes, inPlace));
      for (size_t m = 0; m < n(); ++m) (*all_)[m].path->submit(*calls[m]);
      all_->stepAll(100);
      EXPECT_TRUE(all_->failures().empty());
      for (size_t m = 0; m < n(); ++m) {
        EXPECT_EQ(calls[m]->remaining, 0U);
        EXPECT_EQ(ExchangeMachines::result(*calls[m]), all_->sum(chunks * bytes)) << "machine " << m;
        EXPECT_TRUE((*all_)[m].path->idle());
      }
      for (size_t m = 0; m < n(); ++m) (*all_)[m].buffers.reset();
    }
}

TEST_P(ExchangePathTest, HasOneConnectionEachWayForEveryStep) {
  for (size_t m = 0; m < n(); ++m) {
    size_t comms = 0;
    (*all_)[m].path->forEachComm([&](net::Comm&) { ++comms; });
    EXPECT_EQ(comms, 2 * stepsOf(n()));
  }
}

TEST_P(ExchangePathTest, MachinesMayBeAtDifferentCallsAndMoveInAnyOrder) {
  std::mt19937 random(static_cast<unsigned>(n()));
  constexpr size_t kCalls = 12;
  std::vector<std::vector<Collective*>> calls(n());
  std::vector<size_t> submitted(n());
  for (size_t m = 0; m < n(); ++m)
    for (size_t c = 0; c < kCalls; ++c) calls[m].push_back(&all_->add(m, 1 + c % 3, 64 + 6000 * (c % 4), c % 2 == 0));
  for (int turn = 0; turn < 4000; ++turn) {
    const size_t m = random() % n();
    if (submitted[m] < kCalls && random() % 4 == 0) (*all_)[m].path->submit(*calls[m][submitted[m]++]);
    all_->step(m);
  }
  EXPECT_TRUE(all_->failures().empty());
  for (size_t m = 0; m < n(); ++m)
    for (const Collective* call : calls[m]) {
      ASSERT_EQ(call->remaining, 0U);
      EXPECT_EQ(ExchangeMachines::result(*call), all_->sum(call->call.count));
    }
}

TEST_P(ExchangePathTest, NoMachineSumsBeforeTheLastMachineHasMadeTheCall) {
  for (size_t late = 0; late < n(); ++late) {
    std::vector<Collective*> calls;
    for (size_t m = 0; m < n(); ++m) {
      (*all_)[m].buffers.reset();
      calls.push_back(&all_->add(m, 1, 64));
    }
    for (size_t m = 0; m < n(); ++m)
      if (m != late) (*all_)[m].path->submit(*calls[m]);
    all_->stepAll();
    for (const Collective* call : calls) EXPECT_EQ(call->remaining, 1U);
    (*all_)[late].path->submit(*calls[late]);
    all_->stepAll();
    for (const Collective* call : calls) EXPECT_EQ(call->remaining, 0U);
  }
}

TEST_P(ExchangePathTest, MachinesThatMadeDifferentCallsAreNamed) {
  using Change = void (*)(CallInfo&);
  for (const Change change :
       {Change([](CallInfo& c) { c.op = 2; }), Change([](CallInfo& c) { c.type = 0; }),
        Change([](CallInfo& c) { ++c.count; }), Change([](CallInfo& c) { c.byGpuGroups = true; })})
    for (size_t m = 0; m < n(); ++m) {
      connect();
      std::vector<bool> odd(n());
      odd[m] = true;
      CallInfo common, other;
      for (size_t each = 0; each < n(); ++each) {
        Collective& call = all_->add(each, 1, each == m ? 128 : 64);
        call.call.count = 64;
        common = other = call.call;
        change(other);
        if (odd[each]) call.call = other;
        (*all_)[each].path->submit(call);
      }
      all_->stepAll();
      expectDisagreement(odd, common, other);
    }
}

// Some machines make the call on the lanes, and the others on the exchange path. Which machines these are, and when
// they begin the call, must not matter.
TEST_P(ExchangePathTest, ACallOnTheLanesOfOtherMachinesIsADisagreement) {
  for (unsigned subset = 1; subset + 1 < 1U << n(); ++subset)
    for (const bool lanesFirst : {true, false}) {
      connect();
      std::vector<bool> onLanes(n());
      CallInfo common, other;
      for (const bool lanes : {lanesFirst, !lanesFirst}) {
        for (size_t m = 0; m < n(); ++m) {
          onLanes[m] = (subset >> m & 1) != 0;
          if (onLanes[m] != lanes) continue;
          Collective& call = all_->add(m, 1, 64);
          common = other = call.call;
          other.count = 1000;
          if (lanes) (*all_)[m].path->submittedToLanes(other, 1);
          else (*all_)[m].path->submit(call);
        }
        all_->stepAll(3);
      }
      all_->stepAll();
      expectDisagreement(onLanes, common, other);
      for (size_t m = 0; m < n(); ++m) EXPECT_TRUE(onLanes[m] || (*all_)[m].failure.ok()) << "machine " << m;
    }
}

TEST_P(ExchangePathTest, CallsOnTheLanesThatHaveEndedAreForgotten) {
  for (size_t m = 0; m < n(); ++m) {
    Collective& call = all_->add(m, 1, 64);
    CallInfo earlier = call.call;
    earlier.count = 1000;
    (*all_)[m].path->submittedToLanes(earlier, 1);
    (*all_)[m].path->submit(call);
  }
  all_->oldestRound = 1;
  all_->stepAll();
  EXPECT_TRUE(all_->failures().empty());
}

// Machines whose histories differ have disagreed on an earlier call, which other machines report.
TEST_P(ExchangePathTest, CallsWithDifferentHistoriesAreNeitherComparedNorSummed) {
  std::vector<Collective*> calls;
  for (size_t m = 0; m < n(); ++m) {
    calls.push_back(&all_->add(m, 1, 64));
    calls[m]->call.history = m == 0 ? 1 : 2;
    if (m == 0) calls[m]->call.op = 2;
    CallInfo onLanes = calls[m]->call;
    onLanes.history = 3;
    (*all_)[m].path->submittedToLanes(onLanes, 1);
    (*all_)[m].path->submit(*calls[m]);
  }
  all_->stepAll();
  EXPECT_TRUE(all_->failures().empty());
  for (const Collective* call : calls) EXPECT_EQ(call->remaining, 1U);
}

// Machine m has retired m % 3 chunks of a lane whose server is lost. It brings the sums of these chunks.
TEST_P(ExchangePathTest, ALostLaneGoesOnWithTheSumsThatSomeMachinesHave) {
  const size_t most = std::min<size_t>(2, n() - 1);
  const auto retired = [](size_t m) { return m % 3; };
  for (const bool inPlace : {false, true})
    for (const size_t bytes : {0UL, 100UL, 20000UL}) {
      std::vector<size_t> holders;
      for (size_t chunk = 0; chunk < most; ++chunk) holders.push_back(chunk + 1);
      all_ = std::make_unique<ExchangeMachines>(n(), true, holders);
      std::vector<Collective*> calls;
      for (size_t m = 0; m < n(); ++m) {
        calls.push_back(&all_->add(m, 5, bytes, inPlace));
        for (size_t chunk = 0; chunk < 5; ++chunk)
          if (chunk < retired(m)) (*all_)[m].path->submit(KeptSum{calls[m]->call, std::vector<uint8_t>(bytes, 0x5a)});
          else (*all_)[m].path->submit(SubmittedChunk{calls[m], chunk});
        const auto oldest = (*all_)[m].path->oldest();
        ASSERT_TRUE(oldest);
        EXPECT_EQ(oldest->index, retired(m));
      }
      all_->stepAll(100);
      EXPECT_TRUE(all_->failures().empty());
      for (size_t m = 0; m < n(); ++m) {
        ExchangeMachines::Bytes expected = all_->sum(5 * bytes);
        std::fill_n(expected.begin(), most * bytes, uint8_t{0x5a});
        ExchangeMachines::Bytes found = ExchangeMachines::result(*calls[m]);
        std::fill_n(found.begin(), retired(m) * bytes, uint8_t{0x5a});  // this machine has sums of its own
        EXPECT_EQ(found, expected) << "machine " << m;
        EXPECT_EQ(calls[m]->remaining, retired(m));
        EXPECT_TRUE((*all_)[m].path->idle());
        EXPECT_FALSE((*all_)[m].path->oldest());
      }
    }
}

TEST_P(ExchangePathTest, ChecksumsOfForwardedContributionsAreValid) {
  ExchangeMachines checked(n(), true);
  std::vector<Collective*> calls;
  for (size_t m = 0; m < n(); ++m) calls.push_back(&checked.add(m, 3, 20000));
  for (size_t m = 0; m < n(); ++m) checked[m].path->submit(*calls[m]);
  checked.stepAll(50);
  EXPECT_TRUE(checked.failures().empty());
  for (const Collective* call : calls) EXPECT_EQ(ExchangeMachines::result(*call), checked.sum(60000));
}

INSTANTIATE_TEST_SUITE_P(Machines, ExchangePathTest, testing::Values(2, 3, 4, 5, 7, 8),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace bps::test
