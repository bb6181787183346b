// One rank makes a different call than the other ranks, or one call more or less, while earlier and
// later calls are in flight. Every rank's error names the two ranks and their two calls, and no
// other calls. The cases have random numbers of ranks, machines, rails and servers, random sizes of
// calls and random timing. With BPS_TEST_LONG=1, the test has ten times as many cases.
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>
#include <sstream>
#include <thread>

#include "src/base/format.h"
#include "tests/support/cluster.h"
#include "tests/support/data.h"

namespace bps::test {
namespace {

constexpr size_t kServers = 3;
constexpr size_t kMostElements = 400000;

using Random = std::mt19937_64;
uint64_t below(Random& random, uint64_t end) { return random() % end; }

constexpr size_t kScales[] = {4, 600, 9000, kMostElements, kMostElements};

CallInfo randomCall(Random& random, size_t scales = std::size(kScales)) {
  CallInfo call;
  call.count = below(random, kScales[below(random, scales)]);
  constexpr DataType kTypes[] = {DataType::kUint8, DataType::kFloat16, DataType::kFloat32, DataType::kInt64};
  call.type = static_cast<uint8_t>(kTypes[below(random, std::size(kTypes))]);
  call.op = static_cast<uint8_t>(below(random, 6));
  return call;
}

// Returns a call that an erroneous application could make instead of `call`.
CallInfo differentCall(const CallInfo& call, Random& random) {
  CallInfo other = call;
  while (other.sameCall(call)) {
    const uint64_t what = below(random, 5);
    if (what == 0) other.count = below(random, 2) == 0 ? call.count + 1 : randomCall(random).count;
    if (what == 1) other.type = randomCall(random).type;
    if (what == 2) other.op = randomCall(random).op;
    if (what == 3) other.op = static_cast<uint8_t>(call.op == 5 ? CallOp::kSum : CallOp::kPreMulSum);  // the scalar
    if (what == 4) other = randomCall(random);
  }
  return other;
}

using Calls = std::vector<CallInfo>;

struct Case {
  Job job;
  size_t oddRank = 0;               // the rank whose calls differ
  Calls commonCalls, oddRankCalls;  // the calls of the other ranks, and the calls of oddRank
  size_t at = 0;                    // the number of the first call on which the ranks disagree
};

// Returns the position of the first difference. Returns nullopt if one list of calls is only the
// beginning of the other list.
std::optional<size_t> firstDifference(const Calls& a, const Calls& b) {
  for (size_t i = 0; i < a.size() && i < b.size(); ++i)
    if (!a[i].sameCall(b[i])) return i;
  return std::nullopt;
}

void numberCalls(Calls& calls) {
  for (size_t i = 0; i < calls.size(); ++i) calls[i].number = i;
}

void makeCalls(Case& made, Random& random) {
  for (std::optional<size_t> at; !at; at = firstDifference(made.commonCalls, made.oddRankCalls)) {
    made.commonCalls.clear();
    const size_t before = below(random, 4), behind = below(random, 4);
    for (size_t i = 0; i < before + 1 + behind; ++i) made.commonCalls.push_back(randomCall(random));
    // The differing call is usually small, so that only one owner sees it. The other owners see
    // only later, larger calls.
    if (below(random, 3) > 0) made.commonCalls[before] = randomCall(random, 3);
    made.oddRankCalls = made.commonCalls;
    const auto place = made.oddRankCalls.begin() + static_cast<ptrdiff_t>(before);
    const uint64_t how = below(random, 6);
    if (how == 0) made.oddRankCalls.insert(place, randomCall(random));
    else if (how == 1) made.oddRankCalls.erase(place);
    else *place = differentCall(*place, random);
    numberCalls(made.commonCalls);
    numberCalls(made.oddRankCalls);
  }
  made.at = *firstDifference(made.commonCalls, made.oddRankCalls);
}

std::string firstOf(const std::string& servers, size_t count) {
  std::stringstream in(servers);
  std::string text, one;
  for (size_t i = 0; i < count && std::getline(in, one, ','); ++i) text += (text.empty() ? "" : ",") + one;
  return text;
}

Case makeCase(uint64_t seed, const std::string& servers) {
  Random random(seed);
  Case made;
  Job& job = made.job;
  job.ranks = 2 + below(random, 4);
  const bool shared = below(random, 3) == 0;
  for (size_t left = job.ranks; left > 0; left -= job.machines.back())
    job.machines.push_back(shared ? 1 + below(random, left) : 1);
  job.servers = firstOf(servers, below(random, kServers + 1));
  constexpr uint64_t kLimits[] = {0, 4096, 100000, uint64_t{1} << 30};
  job.env.exchangeBytes.value = below(random, 2) == 0 ? 0 : kLimits[below(random, std::size(kLimits))];
  job.env.singleOwnerBytes.value = kLimits[below(random, std::size(kLimits))];
  job.env.rails = static_cast<int>(below(random, 3));
  // A known rate makes bps skip the measurement. The rate 1 gives the chunk size of a slow network.
  job.env.bandwidth.value = below(random, 2) == 0 ? 1 : 100;
  makeCalls(made, random);
  made.oddRank = below(random, job.ranks);
  return made;
}

// Issues all calls at once. Some ranks delay the call on which the ranks disagree. All earlier
// calls of the other ranks then arrive in one burst.
Status callAll(Communicator& comm, const Calls& calls, size_t at, uint64_t seed) {
  Random random(seed);
  const auto pause = std::chrono::microseconds(below(random, 2) == 0 ? 0 : below(random, 20000));
  const auto stream = HostStream::create();
  std::vector<Bytes> memory;
  Status issued;
  for (const CallInfo& info : calls) {
    if (info.number == at) std::this_thread::sleep_for(pause);
    memory.emplace_back(info.count * 8 + 1);  // a valid address even if the call has no elements
    memory.emplace_back(below(random, 2) == 0 ? 0 : memory.back().size());
    uint8_t* from = memory[memory.size() - 2].data();
    uint8_t* to = memory.back().empty() ? from : memory.back().data();
    if (!issued.ok()) continue;
    issued = comm.allReduce(
        {from, to, info.count, static_cast<DataType>(info.type), static_cast<CallOp>(info.op), 0, nullptr, stream});
  }
  Status done = stream->synchronize();
  HostStream::destroy(stream.get());
  return done.ok() ? std::move(issued) : std::move(done);
}

// Returns whether `name` contains the rank. `name` is A or B in "ranks disagree: A called X, but B
// called Y".
bool namesRank(const std::string& name, size_t rank) {
  const std::string digits = name.substr(name.find(' ') + 1);  // "rank 3 (host, pid 7)", "ranks 0-2, 4 (host)"
  std::stringstream in(digits.substr(0, digits.find(" (")));
  for (std::string range; std::getline(in, range, ',');) {
    const size_t dash = range.find('-');
    const size_t from = std::stoul(range), to = dash == std::string::npos ? from : std::stoul(range.substr(dash + 1));
    if (from <= rank && rank <= to) return true;
  }
  return false;
}

struct ReportedCall {
  std::string name, call;
};

std::optional<std::pair<ReportedCall, ReportedCall>> parse(const std::string& text) {
  const std::string start = "ranks disagree: ", called = " called ", but = ", but ";
  const size_t begin = text.find(start);
  if (begin == std::string::npos) return std::nullopt;
  const std::string rest = text.substr(begin + start.size());
  const size_t middle = rest.find(but);
  const auto side = [&](const std::string& part) {
    const size_t verb = part.find(called);
    return ReportedCall{part.substr(0, verb), verb == std::string::npos ? "" : part.substr(verb + called.size())};
  };
  if (middle == std::string::npos) return std::nullopt;
  return std::pair(side(rest.substr(0, middle)), side(rest.substr(middle + but.size())));
}

// Returns an empty text if the outcome is right, and otherwise a text that describes the error.
std::string verify(const Case& made, const Status& outcome) {
  if (outcome.code() != Code::kInvalidUsage) return "not an invalid usage";
  const auto sides = parse(outcome.message());
  if (!sides) return "not a disagreement";
  auto [oddRank, commonCalls] = *sides;
  if (!namesRank(oddRank.name, made.oddRank)) std::swap(oddRank, commonCalls);
  if (!namesRank(oddRank.name, made.oddRank) || namesRank(commonCalls.name, made.oddRank)) return "not the right ranks";
  if (oddRank.call != describe(made.oddRankCalls[made.at]) || commonCalls.call != describe(made.commonCalls[made.at]))
    return "not the right calls";
  return {};
}

std::string describe(const Case& made, uint64_t seed) {
  std::string machines;
  for (const size_t ranks : made.job.machines) machines += fmt::format("{} ", ranks);
  return fmt::format(
      "seed {}: machines of {}ranks, servers '{}', exchange path {}, single owner {}, rails {}; rank {} calls {}, not "
      "{}",
      seed, machines, made.job.servers, made.job.env.exchangeBytes.value, made.job.env.singleOwnerBytes.value,
      made.job.env.rails, made.oddRank, bps::describe(made.oddRankCalls[made.at]),
      bps::describe(made.commonCalls[made.at]));
}

TEST(RandomMismatch, AllRanksReportTheTwoDifferingCalls) {
  const bool isLong = std::getenv("BPS_TEST_LONG") != nullptr;
  const char* first = std::getenv("BPS_TEST_SEED");
  const uint64_t start = first != nullptr ? std::stoull(first) : 1;
  const uint64_t cases = first != nullptr ? 1 : kSanitized ? 40 : isLong ? 2000 : 200;
  const Servers servers(kServers);
  size_t wrong = 0;
  for (uint64_t seed = start; seed < start + cases; ++seed) {
    const Case made = makeCase(seed, servers.list());
    const std::vector<Status> outcomes = runRanks(made.job, [&](Communicator& comm) {
      return callAll(comm, comm.rank() == made.oddRank ? made.oddRankCalls : made.commonCalls, made.at,
                     seed * 16 + comm.rank());
    });
    for (size_t rank = 0; rank < outcomes.size(); ++rank) {
      const std::string verdict = verify(made, outcomes[rank]);
      if (verdict.empty()) continue;
      ++wrong;
      ADD_FAILURE() << verdict << "\n" << describe(made, seed) << "\nrank " << rank << ": " << outcomes[rank].message();
      break;
    }
  }
  std::printf("%zu of %zu mismatches, seeds %zu to %zu, reported correctly\n", static_cast<size_t>(cases) - wrong,
              static_cast<size_t>(cases), static_cast<size_t>(start), static_cast<size_t>(start + cases - 1));
}

}  // namespace
}  // namespace bps::test
