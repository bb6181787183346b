#include "src/comm/metrics/rank_metrics.h"

#include <algorithm>
#include <list>
#include <set>

#include "src/base/format.h"
#include "src/base/log.h"
#include "src/base/mutex.h"
#include "src/base/process/fork_generation.h"
#include "src/metrics/metrics_server.h"

namespace bps {

// The communicators of this process that have metrics.
class MetricsRegistry {
 public:
  static MetricsRegistry& ofProcess();

  void enter(RankMetrics& member, const std::string& setting, const Roster& roster);
  void leave(RankMetrics& member);

 private:
  void start(const std::string& setting, const Roster& roster, uint32_t rank) BPS_REQUIRES(startMutex_);
  std::string page();
  std::string unhealthy();

  // Held while the server starts or ends. The thread of the server never takes startMutex_, so its end can be awaited.
  Mutex startMutex_;
  std::unique_ptr<MetricsServer> server_ BPS_GUARDED_BY(startMutex_);
  Mutex mutex_;  // may be locked with startMutex_ held
  std::list<RankMetrics*> members_ BPS_GUARDED_BY(mutex_);
  RankTotals ended_ BPS_GUARDED_BY(mutex_);
};

// The registry is never destroyed, because the thread of the server may use it while the process exits. A forked child
// has no thread of its parent, and a mutex may be locked for ever, so the child gets a new registry.
MetricsRegistry& MetricsRegistry::ofProcess() {
  struct Slot {
    std::mutex mutex{};
    unsigned forks = forkGeneration();
    MetricsRegistry* registry = new MetricsRegistry();
  };
  static auto* const slot = new Slot();
  const std::lock_guard<std::mutex> lock(slot->mutex);
  if (slot->forks != forkGeneration()) {
    slot->forks = forkGeneration();
    slot->registry = new MetricsRegistry();
  }
  return *slot->registry;
}

void MetricsRegistry::enter(RankMetrics& member, const std::string& setting, const Roster& roster) {
  const MutexLock starting(startMutex_);
  bool first = false;
  {
    const MutexLock lock(mutex_);
    first = members_.empty();
    members_.push_back(&member);
  }
  if (first) start(setting, roster, member.identity_.rank);
}

void MetricsRegistry::start(const std::string& setting, const Roster& roster, uint32_t rank) {
  const auto serve = [&]() -> Result<std::unique_ptr<MetricsServer>> {
    const Address where = BPS_TRY(metricsAddress(setting, roster, rank));
    return MetricsServer::serve(where, {[this] { return page(); }, [this] { return unhealthy(); }, [] { return ""; }});
  };
  Result<std::unique_ptr<MetricsServer>> served = serve();
  if (!served.ok()) {
    logWarn(Subsystem::kInit, "BPS_METRICS={}: {}; rank {} goes on without metrics", setting, served.error().message(),
            rank);
    return;
  }
  server_ = std::move(served).value();
  logInfo(Subsystem::kInit, "rank {}: metrics on {}", rank, server_->address().text());
}

void MetricsRegistry::leave(RankMetrics& member) {
  const MutexLock ending(startMutex_);
  bool last = false;
  {
    const MutexLock lock(mutex_);
    ended_.add(member.counters_);
    members_.remove(&member);
    last = members_.empty();
  }
  if (last) server_.reset();
}

std::string MetricsRegistry::page() {
  const MutexLock lock(mutex_);
  std::vector<CommSample> open;
  for (RankMetrics* member : members_)
    open.push_back({member->identity_, &member->counters_, !member->failure_().ok()});
  return rankPage(open, ended_);
}

std::string MetricsRegistry::unhealthy() {
  const MutexLock lock(mutex_);
  for (const RankMetrics* member : members_)
    if (const Status failed = member->failure_(); !failed.ok()) return failed.message();
  return {};
}

std::unique_ptr<RankMetrics> RankMetrics::enter(const Env& env, const Roster& roster, uint32_t rank,
                                                std::function<Status()> failure) {
  if (env.metrics.empty()) return nullptr;
  MetricsRegistry& registry = MetricsRegistry::ofProcess();
  auto member = std::make_unique<RankMetrics>(registry, roster, rank, std::move(failure));
  registry.enter(*member, env.metrics, roster);
  return member;
}

RankMetrics::RankMetrics(MetricsRegistry& registry, const Roster& roster, uint32_t rank,
                         std::function<Status()> failure)
    : registry_(registry),
      identity_{roster.jobId, rank, static_cast<uint32_t>(roster.ranks.size()), roster.ranks[rank].machine},
      failure_(std::move(failure)),
      counters_(roster, rank) {}

RankMetrics::~RankMetrics() { registry_.leave(*this); }

Result<Address> metricsAddress(const std::string& setting, const Roster& roster, uint32_t rank) {
  Address address = BPS_TRY(parseAddress(setting));
  if (address.port() == 0) return address;
  std::set<uint32_t> before;  // processes of this machine with a lower rank
  const RankEntry& self = roster.ranks[rank];
  for (const uint32_t other : roster.machines[self.machine].ranks) {
    if (roster.ranks[other].pid == self.pid) break;
    before.insert(roster.ranks[other].pid);
  }
  const size_t port = address.port() + before.size();
  if (port > 65535)
    return failure(Code::kInvalidArgument, "process {} of the machine would need port {}, which does not exist",
                   before.size(), port);
  address.setPort(static_cast<uint16_t>(port));
  return address;
}

}  // namespace bps
