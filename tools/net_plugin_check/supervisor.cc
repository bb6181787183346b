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
constexpr std::chrono::milliseconds kGrace{300};  // of the other side after the first failure
constexpr double kMostWaits = 8;                  // a rule ends after so many time-outs, whatever it does

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

bool isVictim(Fate fate, int side) {
  return (fate == Fate::kSenderDies && side == kSender) || (fate == Fate::kReceiverDies && side == kReceiver);
}
bool losesPeer(Fate fate) { return fate == Fate::kSenderDies || fate == Fate::kReceiverDies; }

// ---- in the new process

Status enterNetwork(const std::string& path) {
  const UniqueFd network(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!network) return systemFailure("--sender-netns " + path, errno);
  if (::setns(network.get(), CLONE_NEWNET) != 0) return systemFailure("--sender-netns " + path, errno);
  return {};
}

Result<std::string> runBody(Side& side, const Rule& rule) {
  if (side.sends() && !side.options().senderNetns.empty()) BPS_TRY(enterNetwork(side.options().senderNetns));
  BPS_TRY(side.open());
  if (rule.fate != Fate::kAlone) BPS_TRY(side.meet());
  std::string detail = BPS_TRY(rule.body(side));
  if (rule.fate == Fate::kBothEnd || rule.fate == Fate::kExit) BPS_TRY(side.meet());
  if (rule.fate != Fate::kExit) BPS_TRY(side.shut());
  return detail;
}

struct Job {
  const CheckOptions& options;
  const Rule& rule;
  int device;
  Shared& shared;
};

void runSide(const Job& job, int which, int channel) {
  SideRecord& record = job.shared.sides[static_cast<size_t>(which)];
  mySlot() = &record.slot;
  Side side(job.options, job.device, which == kSender, UniqueFd(channel), job.shared.sides.data());
  std::string detail;
  const Status outcome = guarded([&]() -> Status {
    detail = BPS_TRY(runBody(side, job.rule));
    return {};
  });
  mySlot() = nullptr;
  if (outcome.ok()) record.finish(Ending::kPassed, detail);
  else if (outcome.code() == Code::kInProgress) record.finish(Ending::kSkipped, outcome.message());
  else record.finish(outcome.code() == Code::kRemote ? Ending::kDeserted : Ending::kFailed, outcome.message());
}

void prepareChild(pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);
  const rlimit none{0, 0};
  ::setrlimit(RLIMIT_CORE, &none);
}

[[noreturn]] void leave(const Job& job) {
  if (job.rule.fate == Fate::kExit) std::exit(0);  // with what the plugin has registered for it
  ::_exit(0);
}

using Channel = std::array<int, kSides>;

[[noreturn]] void becomeSide(const Job& job, int which, const Channel& channel) {
  ::close(channel[static_cast<size_t>(1 - which)]);
  job.shared.sides[static_cast<size_t>(which)].pid.store(::getpid());
  runSide(job, which, channel[static_cast<size_t>(which)]);
  leave(job);
}

[[noreturn]] void becomeBoth(const Job& job, const Channel& channel) {
  std::thread sender([&] { runSide(job, kSender, channel[kSender]); });
  runSide(job, kReceiver, channel[kReceiver]);
  sender.join();
  leave(job);
}

// ---- in the supervising process

// One process with one side, or with both.
struct Child {
  pid_t pid = -1;
  int side = 0;
  int status = 0;
  bool ended = false;
};

class Run {
 public:
  Run(const Job& job) : job_(job), start_(nowNs()) {}
  ~Run() {
    for (Child& child : children_) end(child);
  }
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  Status start();
  void watch();
  Finding verdict() const;

 private:
  SideRecord& record(int side) const { return job_.shared.sides[static_cast<size_t>(side)]; }
  Status add(int side, const Channel& channel);
  static void end(Child& child);
  const char* nameOfChild(const Child& child) const;
  std::string prefix(int side) const;
  bool reap();
  bool mustEnd();
  std::string hangs() const;
  std::string callUnderWay(int side) const;
  std::string crash() const;
  Finding failed(const std::string& why) const;

  const Job& job_;
  const int64_t start_;
  std::vector<Child> children_;
  std::string hang_;
};

const char* sideName(int side) { return side == kSender ? "sender" : "receiver"; }

// Who speaks; nobody needs to be told where there is only one.
std::string Run::prefix(int side) const {
  return job_.rule.fate == Fate::kAlone ? "" : fmt::format("{}: ", sideName(side));
}

const char* Run::nameOfChild(const Child& child) const {
  return job_.options.threads || job_.rule.fate == Fate::kAlone ? "the process" : sideName(child.side);
}

Status Run::add(int side, const Channel& channel) {
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) return systemFailure("fork", errno);
  if (pid == 0) {
    prepareChild(parent);
    if (job_.options.threads && job_.rule.fate != Fate::kAlone) becomeBoth(job_, channel);
    becomeSide(job_, side, channel);
  }
  children_.push_back({pid, side});
  return {};
}

Status Run::start() {
  Channel channel{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, channel.data()) != 0)
    return systemFailure("socketpair", errno);
  const UniqueFd first(channel[0]), second(channel[1]);
  std::fflush(nullptr);
  BPS_TRY(add(kReceiver, channel));
  if (!job_.options.threads && job_.rule.fate != Fate::kAlone) BPS_TRY(add(kSender, channel));
  return {};
}

void Run::end(Child& child) {
  if (child.ended) return;
  ::kill(child.pid, SIGKILL);
  ::waitpid(child.pid, &child.status, 0);
  child.ended = true;
}

// Whether all have ended.
bool Run::reap() {
  bool all = true;
  for (Child& child : children_) {
    if (!child.ended) child.ended = ::waitpid(child.pid, &child.status, WNOHANG) == child.pid;
    all = all && child.ended;
  }
  return all;
}

std::string Run::hangs() const {
  const auto limit = static_cast<int64_t>(job_.options.timeoutSeconds * 1e9);
  for (int side : {kReceiver, kSender})
    for (const Slot* slot : {&record(side).slot, &record(side).helper}) {
      const int call = slot->call.load();
      if (call >= 0 && nowNs() - slot->sinceNs.load() > limit)
        return fmt::format("{}{} has not returned for {} s", prefix(side), nameOf(static_cast<Call>(call)),
                           job_.options.timeoutSeconds);
    }
  if (nowNs() - start_ > static_cast<int64_t>(kMostWaits * static_cast<double>(limit)))
    return fmt::format("not finished in {} s", kMostWaits * job_.options.timeoutSeconds);
  return {};
}

// Whether to wait no longer: a side hangs, or one has failed a while ago.
bool Run::mustEnd() {
  if (hang_.empty()) hang_ = hangs();
  if (!hang_.empty()) return true;
  const int64_t grace = std::chrono::nanoseconds(kGrace).count();
  bool dead = false;
  for (const Child& child : children_)
    dead = dead || (child.ended && WIFSIGNALED(child.status) && !isVictim(job_.rule.fate, child.side));
  for (int side : {kReceiver, kSender}) {
    const Ending ending = record(side).ending.load(std::memory_order_acquire);
    if ((ending == Ending::kFailed || ending == Ending::kSkipped || ending == Ending::kDeserted) &&
        nowNs() - record(side).endedNs.load() > grace)
      return true;
  }
  if (dead) std::this_thread::sleep_for(kGrace);
  return dead;
}

void Run::watch() {
  for (unsigned rounds = 0; !reap(); ++rounds) {
    if (mustEnd()) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(rounds < 50 ? 1 : 5));
  }
  for (Child& child : children_) end(child);
}

// " in isend", or nothing. The one process of --threads has both sides.
std::string Run::callUnderWay(int side) const {
  for (int each : {kReceiver, kSender}) {
    if (each != side && !job_.options.threads) continue;
    for (const Slot* slot : {&record(each).slot, &record(each).helper})
      if (slot->call.load() >= 0) return std::string(" in ") + nameOf(static_cast<Call>(slot->call.load()));
  }
  return {};
}

std::string Run::crash() const {
  for (const Child& child : children_) {
    if (isVictim(job_.rule.fate, child.side)) continue;
    const bool killedByUs = WIFSIGNALED(child.status) && WTERMSIG(child.status) == SIGKILL;
    if (killedByUs || (WIFEXITED(child.status) && WEXITSTATUS(child.status) == 0)) continue;
    const std::string where = callUnderWay(child.side);
    if (WIFSIGNALED(child.status))
      return fmt::format("{}: crashed with signal {} (SIG{}){}", nameOfChild(child), WTERMSIG(child.status),
                         ::sigabbrev_np(WTERMSIG(child.status)), where);
    return fmt::format("{}: ended with status {}{}", nameOfChild(child), WEXITSTATUS(child.status), where);
  }
  return {};
}

Finding Run::failed(const std::string& why) const {
  Finding finding;
  finding.detail = why;
  return finding;
}

Finding Run::verdict() const {
  const std::string crashed = crash();
  if (!crashed.empty()) return failed(crashed);
  if (!hang_.empty()) return failed(hang_);  // what the other side missed meanwhile comes from it
  Finding finding;
  int64_t first = INT64_MAX;
  std::string deserted;
  bool skip = false;
  for (int side : {kReceiver, kSender}) {
    const SideRecord& ended = record(side);
    const Ending ending = ended.ending.load(std::memory_order_acquire);
    const std::string detail = ended.detail.data();
    if (ending == Ending::kSkipped) {
      skip = true;
      finding.detail = detail;
    }
    if (ending == Ending::kDeserted) deserted = prefix(side) + detail;
    if (ending == Ending::kFailed && ended.endedNs.load() < first) {
      first = ended.endedNs.load();
      finding.detail = prefix(side) + detail;
    }
  }
  if (first != INT64_MAX) return finding;
  if (skip) {
    finding.verdict = Verdict::kSkip;
    return finding;
  }
  if (!deserted.empty()) return failed(deserted);
  for (int side : {kReceiver, kSender}) {
    const SideRecord& ended = record(side);
    const bool expected = !isVictim(job_.rule.fate, side) && !(job_.rule.fate == Fate::kAlone && side == kSender);
    if (expected && ended.ending.load() != Ending::kPassed)
      return failed(fmt::format("{} ended without an outcome", sideName(side)));
    if (ended.detail[0] != '\0')
      finding.detail += (finding.detail.empty() ? "" : ", ") + std::string(ended.detail.data());
    for (const Measure& measure : ended.measures)
      if (measure.name[0] != '\0') finding.measures[measure.name.data()] = measure.value;
  }
  finding.verdict = Verdict::kPass;
  return finding;
}

}  // namespace

Finding supervise(const CheckOptions& options, const Rule& rule, int device) {
  const int64_t start = nowNs();
  Finding finding;
  const SharedPtr shared = makeShared();
  if (options.threads && (losesPeer(rule.fate) || rule.fate == Fate::kExit)) {
    finding.verdict = Verdict::kSkip;
    finding.detail = "needs two processes (without --threads)";
  } else if (!shared) {
    finding.detail = "no shared memory";
  } else {
    const Job job{options, rule, device, *shared};
    Run run(job);
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
