#include "tools/bps_run/launcher.h"

#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>

#include "src/base/format.h"

namespace bps {
namespace {

using namespace std::chrono_literals;

constexpr auto kListenTime = 30s;   // for servers to start
constexpr auto kLinger = 2s;        // for the other ranks to report a failure on their own
constexpr auto kGrace = 5s;         // between SIGTERM and SIGKILL
constexpr auto kServerGrace = 10s;  // for servers to drain
constexpr int kTimedOut = 124;

Result<UniqueFd> watchSignals() {
  sigset_t set;
  sigemptyset(&set);
  for (int number : {SIGCHLD, SIGINT, SIGTERM, SIGHUP}) sigaddset(&set, number);
  ::sigprocmask(SIG_BLOCK, &set, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  UniqueFd fd(::signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC));
  if (!fd) return systemFailure("signalfd", errno);
  return fd;
}

std::string besideUs(const std::string& name) {
  std::array<char, 4096> path{};
  const ssize_t length = ::readlink("/proc/self/exe", path.data(), path.size() - 1);
  const std::string self(path.data(), static_cast<size_t>(std::max<ssize_t>(0, length)));
  return self.substr(0, self.rfind('/') + 1) + name;
}

bool anyRuns(const std::vector<std::unique_ptr<Member>>& members) {
  return std::any_of(members.begin(), members.end(), [](const auto& member) { return !member->status(); });
}

void signalAll(const std::vector<std::unique_ptr<Member>>& members, int number) {
  for (const auto& member : members) member->signal(number);
}

std::string plural(size_t count, const char* noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

// Never fails, whatever has become of standard error.
void say(const std::string& text) { printLine(STDERR_FILENO, "bps-run: ", text); }

void announce(const RunOptions& options, const std::string& where) {
  std::string servers = where.empty() ? "no servers" : "servers " + where;
  if (options.servers) {
    servers = plural(*options.servers, "server");
    if (!where.empty()) servers += " at " + where;
  }
  say(fmt::format("{} x {}, {}", plural(options.workers, "worker"), plural(options.ranksPerMachine, "rank"), servers));
}

}  // namespace

Launcher::Launcher(RunOptions options, Warden warden) : options_(std::move(options)), warden_(std::move(warden)) {}

int Launcher::run() {
  const auto limit = std::chrono::duration<double>(options_.timeoutSeconds);
  if (options_.timeoutSeconds > 0) end_ = Deadline::in(std::chrono::duration_cast<std::chrono::nanoseconds>(limit));
  Status started = startAll();
  if (started.ok()) supervise();
  else if (end_.passed()) timedOut();
  else if (interrupts_ == 0) fail(1, started.message());
  endRanks();
  endServers();
  if (status_ != 0) {
    for (const auto& member : servers_) member->printTail();
    for (const auto& member : ranks_) member->printTail();
  }
  return status_;
}

Status Launcher::startAll() {
  signals_ = BPS_TRY(watchSignals());
  BPS_TRY(startServers());
  BPS_TRY(awaitListening());
  const Changes common = BPS_TRY(commonChanges(options_, warden_.keyPath(), addresses_));
  const auto servers = common.find("BPS_SERVERS");
  announce(options_, servers == common.end() ? environmentValue("BPS_SERVERS") : servers->second.value_or(""));
  return startRanks(common);
}

Status Launcher::startServers() {
  constexpr std::string_view kListening = "listening on ";
  addresses_.resize(options_.servers.value_or(0));
  Changes changes;
  if (environmentValue("BPS_SOCKET_IFNAME").empty() && environmentValue("NCCL_SOCKET_IFNAME").empty())
    changes["BPS_SOCKET_IFNAME"] = "lo";
  for (size_t server = 0; server < addresses_.size(); ++server) {
    MemberSpec spec{fmt::format("server {}", server), {}, options_.allOutput, {}};
    spec.process.argv = {besideUs("bps-server"), "--listen", "127.0.0.1:0", "--key-file", warden_.keyPath()};
    spec.process.environment = environmentWith(changes);
    spec.heed = [this, server, kListening](std::string_view line) {
      if (line.substr(0, kListening.size()) == kListening) addresses_[server] = line.substr(kListening.size());
    };
    BPS_TRY(add(servers_, std::move(spec)));
  }
  return {};
}

Status Launcher::awaitListening() {
  const Deadline listening = Deadline::in(kListenTime), deadline = end_.at() < listening.at() ? end_ : listening;
  for (size_t server = 0; server < servers_.size(); ++server) {
    while (addresses_[server].empty()) {
      if (interrupts_ > 0) return {Code::kInvalidUsage, "interrupted"};
      if (servers_[server]->status()) return {Code::kSystem, servers_[server]->ending() + " before it was listening"};
      if (deadline.passed()) return failure(Code::kTimeout, "server {} is not listening after {}", server, "30 s");
      step(deadline);
    }
  }
  return {};
}

Status Launcher::startRanks(const Changes& common) {
  for (size_t rank = 0; rank < options_.ranks(); ++rank) {
    Changes changes = common;
    changes.merge(rankChanges(options_, rank));
    MemberSpec spec{std::to_string(rank), {}, options_.allOutput, {}};
    spec.process = {options_.command, environmentWith(changes), rank != 0};
    BPS_TRY(add(ranks_, std::move(spec)));
  }
  return {};
}

Status Launcher::add(Members& members, MemberSpec spec) {
  members.push_back(BPS_TRY(Member::start(std::move(spec))));
  warden_.started(members.back()->pid());
  return {};
}

void Launcher::supervise() {
  while (anyRuns(ranks_) && status_ == 0 && !end_.passed()) step(end_);
  if (anyRuns(ranks_) && status_ == 0) timedOut();
}

void Launcher::timedOut() {
  fail(kTimedOut, fmt::format("not done after {:g} s: ending all", options_.timeoutSeconds));
}

void Launcher::endRanks() {
  if (status_ != kTimedOut && interrupts_ == 0) awaitEnd(ranks_, Deadline::in(kLinger));
  signalAll(ranks_, signal_ != 0 ? signal_ : SIGTERM);
  signalAll(ranks_, SIGCONT);
  awaitEnd(ranks_, Deadline::in(kGrace));
  signalAll(ranks_, SIGKILL);
  awaitEnd(ranks_, Deadline::in(kGrace));
}

void Launcher::endServers() {
  signalAll(servers_, SIGTERM);
  awaitEnd(servers_, Deadline::in(kServerGrace));
  for (const auto& server : servers_)
    if (!server->status()) fail(1, fmt::format("{} has not ended within {} s of SIGTERM", server->name(), 10));
  signalAll(servers_, SIGKILL);
  awaitEnd(servers_, Deadline::in(kGrace));
}

void Launcher::awaitEnd(const Members& members, Deadline deadline) {
  const int before = interrupts_;
  while (anyRuns(members) && !deadline.passed() && interrupts_ == before) step(deadline);
}

void Launcher::step(Deadline deadline) {
  std::vector<pollfd> polled{{signals_.get(), POLLIN, 0}};
  for (const Members* members : {&servers_, &ranks_})
    for (const auto& member : *members)
      for (int fd : member->descriptors()) polled.push_back({fd, POLLIN, 0});
  ::poll(polled.data(), polled.size(), deadline.leftMs());
  for (const Members* members : {&servers_, &ranks_})
    for (const auto& member : *members) member->pump();
  readSignals();
  noticeEnds();
}

void Launcher::readSignals() {
  signalfd_siginfo info{};
  while (::read(signals_.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
    const auto number = static_cast<int>(info.ssi_signo);
    if (number == SIGCHLD) continue;
    signal_ = number;
    ++interrupts_;
    if (status_ == 0) fail(128 + number, fmt::format("{}: ending all", ::strsignal(number)));
  }
}

void Launcher::noticeEnds() {
  for (const auto& server : servers_) {
    if (!server->noticeEnd()) continue;
    warden_.ended(server->pid());
    // Whether a run survives the loss of a server is for the ranks to say.
    if (server->status() != 0 || anyRuns(ranks_)) say(server->ending());
  }
  for (const auto& rank : ranks_) {
    if (!rank->noticeEnd()) continue;
    warden_.ended(rank->pid());
    if (rank->status() != 0 && status_ == 0) fail(*rank->status(), "rank " + rank->ending());
  }
}

void Launcher::fail(int status, const std::string& why) {
  if (status_ == 0) status_ = status;
  say(why);
}

}  // namespace bps
