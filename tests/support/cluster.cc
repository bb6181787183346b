#include "tests/support/cluster.h"

#include <cstdio>
#include <cstdlib>

#include "src/base/format.h"

namespace bps::test {
namespace {

template <class T>
T valueOrExit(Result<T> result, const char* what) {
  if (!result.ok()) {
    std::fprintf(stderr, "%s: %s\n", what, result.error().message());
    std::abort();
  }
  return std::move(result).value();
}

Address loopback() {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return {reinterpret_cast<const sockaddr*>(&address), sizeof address};
}

// Set the variable for the whole process, because the net plugin is a separate library that reads
// the environment itself.
[[maybe_unused]] const int kLoopbackOnly = ::setenv("BPS_SOCKET_IFNAME", "lo", 1);

}  // namespace

Servers::Servers(size_t count, const Env& env) {
  for (size_t i = 0; i < count; ++i) {
    auto one = std::make_unique<TestServer>();
    one->runner = valueOrExit(JobThreads::start(env, 1, {}), "lane threads");
    const Key key = valueOrExit(serverKey(env), "key");
    one->control = valueOrExit(server::ControlServer::create(env, loopback(), key, *one->runner), "control server");
    one->thread = std::jthread([self = one.get()] {
      const Status ended = self->control->run();
      if (!ended.ok()) std::fprintf(stderr, "server ended: %s\n", ended.message());
    });
    servers_.push_back(std::move(one));
  }
}

Servers::~Servers() {
  for (auto& one : servers_) {
    one->control->stop();
    one->thread.join();
  }
}

std::string Servers::list() const {
  std::string text;
  for (const auto& one : servers_) text += (text.empty() ? "" : ",") + one->control->address().text();
  return text;
}

size_t machineOf(const Job& job, size_t rank) {
  if (job.machines.empty()) return rank / job.ranksPerMachine;
  size_t machine = 0;
  for (; rank >= job.machines[machine]; ++machine) rank -= job.machines[machine];
  return machine;
}

std::vector<Status> runRanks(const Job& job, const Body& body) {
  const UniqueId id = valueOrExit(UniqueId::create(job.env), "unique id");
  std::vector<std::future<Status>> ranks;
  std::vector<std::jthread> threads;
  for (size_t rank = 0; rank < job.ranks; ++rank) {
    std::packaged_task<Status()> task([&job, &body, id, rank]() -> Status {
      Env env = job.env;
      env.servers = job.servers;
      env.hostId = "machine" + std::to_string(machineOf(job, rank));
      if (job.perMachine) job.perMachine(machineOf(job, rank), env);
      const auto communicator =
          BPS_TRY(Communicator::create(env, {id, static_cast<uint32_t>(rank), static_cast<uint32_t>(job.ranks)}));
      BPS_TRY(communicator->start());
      BPS_TRY(body(*communicator));
      return communicator->finalized() ? Status() : communicator->finalize();
    });
    ranks.push_back(task.get_future());
    threads.emplace_back(std::move(task));
  }
  const auto deadline = std::chrono::steady_clock::now() + job.limit;
  for (size_t rank = 0; rank < job.ranks; ++rank) {
    if (ranks[rank].wait_until(deadline) == std::future_status::ready) continue;
    std::fprintf(stderr, "rank %zu is stuck after %lld s\n", rank, static_cast<long long>(job.limit.count()));
    std::abort();
  }
  for (std::jthread& thread : threads) thread.join();
  std::vector<Status> outcomes;
  for (auto& rank : ranks) outcomes.push_back(rank.get());
  return outcomes;
}

std::string failures(const std::vector<Status>& outcomes) {
  std::string text;
  for (size_t rank = 0; rank < outcomes.size(); ++rank)
    if (!outcomes[rank].ok()) text += fmt::format("rank {}: {}\n", rank, outcomes[rank].message());
  return text;
}

}  // namespace bps::test
