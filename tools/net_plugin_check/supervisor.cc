#include "tools/net_plugin_check/supervisor.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <thread>

#include "src/base/guard.h"

namespace bps::check {
namespace {

constexpr size_t kSides = 2;
constexpr int kReceiver = 0, kSender = 1;
constexpr std::chrono::milliseconds kOtherSideGrace{300};  // time for the other side after the first failure
constexpr double kMaxTimeoutsPerRule = 8;                  // time limit of a rule, as a multiple of --timeout

struct Shared {
  std::array<SideRecord, kSides> sides;
};

struct Unmap {
  void operator()(Shared* shared) const { ::munmap(shared, sizeof *shared); }
};
using SharedPtr = std::unique_ptr<Shared, Unmap>;

SharedPtr makeShared() {
  void* memory = ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return SharedPtr(memory == MAP_FAILED ? nullptr : new (memory) Shared);
}

bool isKilledSide(Scenario scenario, int side) {
  return (scenario == Scenario::kSenderDies && side == kSender) ||
         (scenario == Scenario::kReceiverDies && side == kReceiver);
}
bool killsOneSide(Scenario scenario) {
  return scenario == Scenario::kSenderDies || scenario == Scenario::kReceiverDies;
}

// ---- functions of the child process

Status enterNetwork(const std::string& path) {
  const UniqueFd network(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!network) return systemFailure("--sender-netns " + path, errno);
  if (::setns(network.get(), CLONE_NEWNET) != 0) return systemFailure("--sender-netns " + path, errno);
  return {};
}

Result<std::string> runBody(Side& side, const Rule& rule) {
  if (side.sends() && !side.options().senderNetns.empty()) BPS_TRY(enterNetwork(side.options().senderNetns));
  BPS_TRY(side.open());
  if (rule.scenario != Scenario::kReceiverOnly) BPS_TRY(side.barrier());
  std::string detail = BPS_TRY(rule.body(side));
  if (rule.scenario == Scenario::kBothClose || rule.scenario == Scenario::kExit) BPS_TRY(side.barrier());
  if (rule.scenario != Scenario::kExit) BPS_TRY(side.closePlugin());
  return detail;
}

struct RuleJob {
  const CheckOptions& options;
  const Rule& rule;
  int device;
  Shared& shared;
};

void runSide(const RuleJob& job, int which, int channel) {
  SideRecord& record = job.shared.sides[static_cast<size_t>(which)];
  threadCallSlot() = &record.slot;
  Side side(job.options, job.device, which == kSender, UniqueFd(channel), job.shared.sides.data());
  std::string detail;
  const Status outcome = guarded([&]() -> Status {
    detail = BPS_TRY(runBody(side, job.rule));
    return {};
  });
  threadCallSlot() = nullptr;
  if (outcome.ok()) record.finish(SideOutcome::kPassed, detail);
  else if (outcome.code() == Code::kInProgress) record.finish(SideOutcome::kSkipped, outcome.message());
  else
    record.finish(outcome.code() == Code::kRemote ? SideOutcome::kPeerLost : SideOutcome::kFailed, outcome.message());
}

void prepareChild(pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);
  const rlimit none{0, 0};
  ::setrlimit(RLIMIT_CORE, &none);
}

[[noreturn]] void exitProcess(const RuleJob& job) {
  if (job.rule.scenario == Scenario::kExit) std::exit(0);  // exit() runs the exit handlers of the plugin
  ::_exit(0);
}

using Channel = std::array<int, kSides>;

[[noreturn]] void runSideAndExit(const RuleJob& job, int which, const Channel& channel) {
  ::close(channel[static_cast<size_t>(1 - which)]);
  job.shared.sides[static_cast<size_t>(which)].pid.store(::getpid());
  runSide(job, which, channel[static_cast<size_t>(which)]);
  exitProcess(job);
}

[[noreturn]] void runBothSidesAndExit(const RuleJob& job, const Channel& channel) {
  std::thread sender([&] { runSide(job, kSender, channel[kSender]); });
  runSide(job, kReceiver, channel[kReceiver]);
  sender.join();
  exitProcess(job);
}

// ---- functions of the supervising process

// A child process, which runs one side or both sides.
struct Child {
  pid_t pid = -1;
  int side = 0;
  int status = 0;
  bool ended = false;
};

class RuleRun {
 public:
  RuleRun(const RuleJob& job) : job_(job), start_(nowNs()) {}
  ~RuleRun() {
    for (Child& child : children_) end(child);
  }
  RuleRun(const RuleRun&) = delete;
  RuleRun& operator=(const RuleRun&) = delete;

  Status start();
  void watch();
  RuleResult verdict() const;

 private:
  SideRecord& record(int side) const { return job_.shared.sides[static_cast<size_t>(side)]; }
  Status add(int side, const Channel& channel);
  static void end(Child& child);
  const char* nameOfChild(const Child& child) const;
  std::string prefix(int side) const;
  bool reap();
  bool shouldStop();
  std::string hangs() const;
  std::string currentCall(int side) const;
  std::string crash() const;

  const RuleJob& job_;
  const int64_t start_;
  std::vector<Child> children_;
  std::string hang_;
};

const char* sideName(int side) { return side == kSender ? "sender" : "receiver"; }

// Returns the prefix of a message with the side's name. The prefix is empty if the rule has only
// one side.
std::string RuleRun::prefix(int side) const {
  return job_.rule.scenario == Scenario::kReceiverOnly ? "" : fmt::format("{}: ", sideName(side));
}

const char* RuleRun::nameOfChild(const Child& child) const {
  return job_.options.threads || job_.rule.scenario == Scenario::kReceiverOnly ? "the process" : sideName(child.side);
}

Status RuleRun::add(int side, const Channel& channel) {
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) return systemFailure("fork", errno);
  if (pid == 0) {
    prepareChild(parent);
    if (job_.options.threads && job_.rule.scenario != Scenario::kReceiverOnly) runBothSidesAndExit(job_, channel);
    runSideAndExit(job_, side, channel);
  }
  children_.push_back({pid, side});
  return {};
}

Status RuleRun::start() {
  Channel channel{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, channel.data()) != 0)
    return systemFailure("socketpair", errno);
  const UniqueFd first(channel[0]), second(channel[1]);
  std::fflush(nullptr);
  BPS_TRY(add(kReceiver, channel));
  if (!job_.options.threads && job_.rule.scenario != Scenario::kReceiverOnly) BPS_TRY(add(kSender, channel));
  return {};
}

void RuleRun::end(Child& child) {
  if (child.ended) return;
  ::kill(child.pid, SIGKILL);
  ::waitpid(child.pid, &child.status, 0);
  child.ended = true;
}

// Collects the children that have ended. Returns true if all children have ended.
bool RuleRun::reap() {
  bool all = true;
  for (Child& child : children_) {
    if (!child.ended) child.ended = ::waitpid(child.pid, &child.status, WNOHANG) == child.pid;
    all = all && child.ended;
  }
  return all;
}

std::string RuleRun::hangs() const {
  const auto limit = static_cast<int64_t>(job_.options.timeoutSeconds * 1e9);
  for (int side : {kReceiver, kSender})
    for (const CallSlot* slot : {&record(side).slot, &record(side).helper}) {
      const int call = slot->call.load();
      if (call >= 0 && nowNs() - slot->sinceNs.load() > limit)
        return fmt::format("{}{} has not returned for {} s", prefix(side), nameOf(static_cast<Call>(call)),
                           job_.options.timeoutSeconds);
    }
  if (nowNs() - start_ > static_cast<int64_t>(kMaxTimeoutsPerRule * static_cast<double>(limit)))
    return fmt::format("not finished within {} s", kMaxTimeoutsPerRule * job_.options.timeoutSeconds);
  return {};
}

// Returns true if watch() must stop waiting. It must stop if a side hangs, or if a side has failed
// and the grace time of the other side has passed.
bool RuleRun::shouldStop() {
  if (hang_.empty()) hang_ = hangs();
  if (!hang_.empty()) return true;
  const int64_t grace = std::chrono::nanoseconds(kOtherSideGrace).count();
  bool dead = false;
  for (const Child& child : children_)
    dead = dead || (child.ended && WIFSIGNALED(child.status) && !isKilledSide(job_.rule.scenario, child.side));
  for (int side : {kReceiver, kSender}) {
    const SideOutcome outcome = record(side).outcome.load(std::memory_order_acquire);
    if ((outcome == SideOutcome::kFailed || outcome == SideOutcome::kSkipped || outcome == SideOutcome::kPeerLost) &&
        nowNs() - record(side).endedNs.load() > grace)
      return true;
  }
  if (dead) std::this_thread::sleep_for(kOtherSideGrace);
  return dead;
}

void RuleRun::watch() {
  for (unsigned rounds = 0; !reap(); ++rounds) {
    if (shouldStop()) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(rounds < 50 ? 1 : 5));
  }
  for (Child& child : children_) end(child);
}

// Returns the current call of a side as text, such as " in isend", or empty text. With --threads,
// the function looks at both sides, because both sides share the process.
std::string RuleRun::currentCall(int side) const {
  for (int each : {kReceiver, kSender}) {
    if (each != side && !job_.options.threads) continue;
    for (const CallSlot* slot : {&record(each).slot, &record(each).helper})
      if (slot->call.load() >= 0) return std::string(" in ") + nameOf(static_cast<Call>(slot->call.load()));
  }
  return {};
}

std::string RuleRun::crash() const {
  for (const Child& child : children_) {
    if (isKilledSide(job_.rule.scenario, child.side)) continue;
    const bool killedByUs = WIFSIGNALED(child.status) && WTERMSIG(child.status) == SIGKILL;
    if (killedByUs || (WIFEXITED(child.status) && WEXITSTATUS(child.status) == 0)) continue;
    const std::string where = currentCall(child.side);
    if (WIFSIGNALED(child.status))
      return fmt::format("{}: crashed with signal {} (SIG{}){}", nameOfChild(child), WTERMSIG(child.status),
                         ::sigabbrev_np(WTERMSIG(child.status)), where);
    return fmt::format("{}: ended with status {}{}", nameOfChild(child), WEXITSTATUS(child.status), where);
  }
  return {};
}

RuleResult RuleRun::verdict() const {
  const std::string crashed = crash();
  if (!crashed.empty()) return {.detail = crashed};
  if (!hang_.empty()) return {.detail = hang_};  // failures of the other side are consequences of the hang
  RuleResult finding;
  int64_t first = INT64_MAX;
  std::string peerLost;
  bool skip = false;
  for (int side : {kReceiver, kSender}) {
    const SideRecord& ended = record(side);
    const SideOutcome outcome = ended.outcome.load(std::memory_order_acquire);
    const std::string detail = ended.detail.data();
    if (outcome == SideOutcome::kSkipped) {
      skip = true;
      finding.detail = detail;
    }
    if (outcome == SideOutcome::kPeerLost) peerLost = prefix(side) + detail;
    if (outcome == SideOutcome::kFailed && ended.endedNs.load() < first) {
      first = ended.endedNs.load();
      finding.detail = prefix(side) + detail;
    }
  }
  if (first != INT64_MAX) return finding;
  if (skip) {
    finding.verdict = Verdict::kSkip;
    return finding;
  }
  if (!peerLost.empty()) return {.detail = peerLost};
  for (int side : {kReceiver, kSender}) {
    const SideRecord& ended = record(side);
    const bool expected =
        !isKilledSide(job_.rule.scenario, side) && !(job_.rule.scenario == Scenario::kReceiverOnly && side == kSender);
    if (expected && ended.outcome.load() != SideOutcome::kPassed)
      return {.detail = fmt::format("{} ended without a result", sideName(side))};
    if (ended.detail[0] != '\0')
      finding.detail += (finding.detail.empty() ? "" : ", ") + std::string(ended.detail.data());
    for (const Measure& measure : ended.measures)
      if (measure.name[0] != '\0') finding.measures[measure.name.data()] = measure.value;
  }
  finding.verdict = Verdict::kPass;
  return finding;
}

}  // namespace

RuleResult supervise(const CheckOptions& options, const Rule& rule, int device) {
  const int64_t start = nowNs();
  RuleResult finding;
  const SharedPtr shared = makeShared();
  if (options.threads && (killsOneSide(rule.scenario) || rule.scenario == Scenario::kExit)) {
    finding.verdict = Verdict::kSkip;
    finding.detail = "needs two processes (without --threads)";
  } else if (!shared) {
    finding.detail = "cannot allocate shared memory";
  } else {
    const RuleJob job{options, rule, device, *shared};
    RuleRun run(job);
    const Status started = run.start();
    if (started.ok()) {
      run.watch();
      finding = run.verdict();
    } else {
      finding.detail = started.message();
    }
  }
  finding.rule = &rule;
  finding.device = device;
  finding.seconds = static_cast<double>(nowNs() - start) / 1e9;
  return finding;
}

}  // namespace bps::check
