#include "tools/bps_doctor/examination.h"

#include <algorithm>
#include <set>
#include <thread>

#include "src/base/format.h"
#include "src/base/guard.h"
#include "src/control/keys/crypto.h"
#include "src/control/servers/server_list.h"
#include "tools/bps_doctor/network/echo_service.h"
#include "tools/bps_doctor/reduce.h"
#include "tools/bps_server/check/check.h"

namespace bps::doctor {
namespace {

using nlohmann::json;

constexpr double kMostServerSeconds = 3;    // for each answer of a server
constexpr size_t kMostServerMachines = 64;  // machines that check the servers, so that they stay within their limits

Deadline after(double seconds) { return Deadline::in(std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000))); }

Token randomToken() {
  Token token;
  randomBytes(token);
  return token;
}

// The Orders are the tests that rank 0 gives to one rank.
struct Orders {
  std::vector<EchoTarget> targets;
  std::vector<std::string> servers;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Orders, targets, servers)

struct TestResults {
  std::vector<WayResult> ways;
  std::vector<ServerResult> servers;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(TestResults, ways, servers)

// Converts a message of another rank. A message of the wrong form is a failure.
template <class T>
Result<T> convert(const json& message, const char* field) {
  T value{};
  BPS_TRY(guarded([&] { value = message.at(field).get<T>(); }).within("a message of another rank"));
  return value;
}

ServerResult checkOne(int rank, const std::string& name, const Env& env) {
  ServerResult result;
  result.rank = rank;
  result.name = name;
  const Status status = guarded([&]() -> Status {
    const Key key = BPS_TRY(serverKey(env));
    const ServerState state = BPS_TRY(checkServer(name, key, env));
    result.version = versionText(state.libraryVersion);
    result.transport = state.transport;
    result.roundTrip = state.roundTrip;
    result.bytesPerSecond = state.bytesPerSecond;
    result.jobs = state.load.jobs;
    result.maxJobs = state.load.maxJobs;
    return {};
  });
  if (!status.ok()) result.error = status.message();
  return result;
}

Result<TestResults> test(const Request& request, const Orders& orders) {
  TestResults results;
  const int rank = request.launch.process;
  results.servers.resize(orders.servers.size());
  Env env = request.env;
  env.timeout.value = std::min(env.timeout.value, kMostServerSeconds);
  std::vector<std::jthread> threads;
  threads.reserve(orders.servers.size());
  for (size_t i = 0; i < orders.servers.size(); ++i)
    threads.emplace_back([&, i] { results.servers[i] = checkOne(rank, orders.servers[i], env); });
  results.ways = BPS_TRY(probeWays(rank, orders.targets));
  threads.clear();  // waits for them
  return results;
}

// The longest time that test() takes: a lookup, a connect and a few answers of a server.
double testSeconds(const Orders& orders) {
  const double ways = static_cast<double>(probeTime(orders.targets.size()).count());
  return std::max(ways, orders.servers.empty() ? 0 : 8 * kMostServerSeconds) + 3;
}

Deadline reduceDeadline(const Env& env) { return after(3 * env.timeout.value + 30); }

// Rank 0's side of the meeting.
class Examination {
 public:
  explicit Examination(const Request& request) : request_(request) {
    survey_.ranks = request.launch.processes;
    survey_.waited = request.waitSeconds;
    survey_.auth = request.env.auth;
    const PortRange& ports = request.env.portRange;
    survey_.portRange = ports.first == 0 ? "any port" : fmt::format("{}-{}", ports.first, ports.last);
  }

  Result<Outcome> run() {
    Facts own = collectFacts(0, request_.env, request_.warnings);
    const Token token = randomToken();
    auto echo = BPS_TRY(EchoService::start(own, request_.env, token));
    survey_.facts.emplace(0, own);
    tokens_.emplace(0, token);
    survey_.serverNames = BPS_TRY(serverNames(request_.env.servers));
    if (survey_.ranks > 1) BPS_TRY(meet());
    compareClocks();
    BPS_TRY(testAll());
    Outcome outcome;
    outcome.findings = judge(survey_);
    const bool reduces = request_.bytes > 0 && survey_.ranks > 1 && !preventsReduce(outcome.findings);
    for (auto& [rank, line] : lines_) {
      const Status sent = line.send({{"reduces", reduces}, {"bytes", request_.bytes}}, after(3));
      if (!sent.ok()) survey_.lost.emplace(rank, sent.message());
    }
    echo.reset();
    lines_.clear();
    if (reduces) survey_.reduce = measureReduce(request_.bytes, reduceDeadline(request_.env));
    for (Finding& each : judgeTime(survey_)) outcome.findings.push_back(std::move(each));
    outcome.survey = std::move(survey_);
    return outcome;
  }

 private:
  Status meet() {
    const MeetingPlace place = BPS_TRY(meetingPlace(request_.env, survey_.ranks));
    Gathered all = BPS_TRY(gather(place, after(request_.waitSeconds)));
    survey_.refused = std::move(all.refused);
    for (auto& [rank, line] : all.lines) {
      const json& report = all.reports.at(rank);
      Result<Facts> facts = convert<Facts>(report, "facts");
      Result<Token> token = convert<Token>(report, "token");
      if (!facts.ok() || !token.ok()) {
        survey_.refused.push_back({line.address(), facts.ok() ? token.error().message() : facts.error().message()});
        continue;
      }
      survey_.facts.emplace(rank, std::move(facts).value());
      tokens_.emplace(rank, std::move(token).value());
      lines_.emplace(rank, std::move(line));
    }
    return {};
  }

  // Runs `talk` with every rank. Ranks with which it fails are lost.
  template <class Talk>
  void withEach(Talk talk) {
    for (auto it = lines_.begin(); it != lines_.end();) {
      const Status status = guarded([&] { return talk(it->first, it->second); });
      if (status.ok()) {
        ++it;
        continue;
      }
      survey_.lost.emplace(it->first, status.message());
      it = lines_.erase(it);
    }
  }

  void compareClocks() {
    withEach([&](int rank, Line& line) -> Status {
      const double before = clockSeconds();
      BPS_TRY(line.send({{"clock", true}}, after(3)));
      const json answer = BPS_TRY(line.receive(after(3)));
      const double theirs = BPS_TRY(convert<double>(answer, "clock"));
      survey_.clocks[rank] = theirs - (before + clockSeconds()) / 2;
      return {};
    });
  }

  Orders ordersOf(int rank) const {
    Orders orders;
    const std::string& machine = survey_.facts.at(rank).hostId;
    std::set<std::string> machines;  // of the ranks up to this one
    bool first = true;
    for (const auto& [other, facts] : survey_.facts) {
      if (other < rank) first = first && facts.hostId != machine;
      if (other <= rank) machines.insert(facts.hostId);
      if (facts.hostId == machine || survey_.lost.contains(other)) continue;
      for (const NicFacts& nic : facts.nics)
        if (nic.port > 0) orders.targets.push_back({other, nic.name, nic.address, nic.port, tokens_.at(other)});
    }
    if (first && machines.size() <= kMostServerMachines) orders.servers = survey_.serverNames;
    return orders;
  }

  Status testAll() {
    double longest = 0;
    withEach([&](int rank, Line& line) {
      const Orders orders = ordersOf(rank);
      longest = std::max(longest, testSeconds(orders));
      return line.send({{"orders", orders}}, after(3));
    });
    const Orders own = ordersOf(0);
    const Deadline deadline = after(longest + testSeconds(own));
    keep(0, BPS_TRY(test(request_, own)));
    withEach([&](int rank, Line& line) -> Status {
      const json answer = BPS_TRY(line.receive(deadline));
      keep(rank, BPS_TRY(convert<TestResults>(answer, "results")));
      return {};
    });
    return {};
  }

  void keep(int rank, TestResults results) {
    for (WayResult& way : results.ways) {
      way.from = rank;
      survey_.ways.push_back(std::move(way));
    }
    for (ServerResult& server : results.servers) {
      server.rank = rank;
      survey_.servers.push_back(std::move(server));
    }
  }

  const Request& request_;
  Survey survey_;
  std::map<int, Line> lines_;
  std::map<int, Token> tokens_;
};

Finding notTaken(const Request& request, const Status& why) {
  const std::string what = fmt::format("rank {} cannot meet rank 0 at {}", request.launch.process, request.env.root);
  return explainError(what, why.message(), "rank");
}

}  // namespace

Result<Outcome> examine(const Request& request) {
  BPS_TRY(cryptoInit());
  return Examination(request).run();
}

Result<std::vector<Finding>> takePart(const Request& request) {
  BPS_TRY(cryptoInit());
  Facts own = collectFacts(request.launch.process, request.env, request.warnings);
  const Token token = randomToken();
  auto echo = BPS_TRY(EchoService::start(own, request.env, token));
  const MeetingPlace place = BPS_TRY(meetingPlace(request.env, request.launch.processes));
  bool reduces = false;
  uint64_t bytes = 0;
  const Status met = guarded([&]() -> Status {
    Line line = BPS_TRY(join(place, after(request.waitSeconds)));
    BPS_TRY(line.send({{"facts", own}, {"token", token}}, after(3)));
    // Rank 0 waits for all ranks before it sends anything.
    (void)BPS_TRY(line.receive(after(2 * request.waitSeconds + 5)));
    BPS_TRY(line.send({{"clock", clockSeconds()}}, after(3)));
    const double others = 3.0 * request.launch.processes;  // rank 0 asks the ranks one after the other
    const json asked = BPS_TRY(line.receive(after(others + 5)));
    const Orders orders = BPS_TRY(convert<Orders>(asked, "orders"));
    const TestResults results = BPS_TRY(test(request, orders));
    BPS_TRY(line.send({{"results", results}}, after(3)));
    const json last = BPS_TRY(line.receive(after(2 * testSeconds(orders) + others + 30)));
    reduces = BPS_TRY(convert<bool>(last, "reduces"));
    bytes = BPS_TRY(convert<uint64_t>(last, "bytes"));
    return {};
  });
  if (!met.ok()) return std::vector<Finding>{notTaken(request, met)};
  echo.reset();
  // Rank 0 reports how the all-reduce ended.
  if (reduces) (void)measureReduce(bytes, reduceDeadline(request.env));
  return std::vector<Finding>();
}

}  // namespace bps::doctor
