#include "tools/bps_run/launcher.h"

#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "src/base/format.h"
#include "tools/bps_run/remote_script.h"

namespace bps {
namespace {

using namespace std::chrono_literals;

constexpr auto kListenTime = 30s;        // time limit for the start of the servers
constexpr auto kFailureReportTime = 2s;  // time for the other ranks to report a failure themselves
constexpr auto kGrace = 5s;              // time between SIGTERM and SIGKILL
constexpr auto kServerGrace = 10s;       // time for the servers to finish their jobs
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

std::string siblingPath(const std::string& name) {
  std::array<char, 4096> path{};
  const ssize_t length = ::readlink("/proc/self/exe", path.data(), path.size() - 1);
  const std::string self(path.data(), static_cast<size_t>(std::max<ssize_t>(0, length)));
  return self.substr(0, self.rfind('/') + 1) + name;
}

bool anyRuns(const std::vector<std::unique_ptr<RunProcess>>& processes) {
  return std::any_of(processes.begin(), processes.end(), [](const auto& process) { return !process->status(); });
}

void signalAll(const std::vector<std::unique_ptr<RunProcess>>& processes, int number) {
  for (const auto& process : processes) process->signal(number);
}

std::string plural(size_t count, const char* noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

// Prints to standard error. Never fails, even if standard error is closed.
void printMessage(const std::string& text) { printLine(STDERR_FILENO, "bps-run: ", text); }

void printSummary(const RunOptions& options, const std::string& where) {
  std::string servers = where.empty() ? "no servers" : "servers " + where;
  if (options.servers || !options.serverHosts.empty()) {
    servers = plural(options.servers.value_or(options.serverHosts.size()), "server");
    if (!where.empty()) servers += " at " + where;
  }
  std::string ranks = "x " + plural(options.ranksPerMachine, "rank");
  if (!options.hosts.empty()) ranks = "with " + plural(options.ranks(), "rank");
  printMessage(fmt::format("{} {}, {}", plural(options.machines(), "worker"), ranks, servers));
}

Result<std::string> fileBytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(file), {}};
  if (bytes.empty()) return failure(Code::kSystem, "cannot read the key {}", path);
  return bytes;
}

}  // namespace

Launcher::Launcher(RunOptions options, Reaper reaper) : options_(std::move(options)), reaper_(std::move(reaper)) {}

int Launcher::run() {
  const auto limit = std::chrono::duration<double>(options_.timeoutSeconds);
  if (options_.timeoutSeconds > 0) end_ = Deadline::in(std::chrono::duration_cast<std::chrono::nanoseconds>(limit));
  Status started = startAll();
  if (started.ok()) supervise();
  else if (end_.passed()) handleTimeout();
  else if (interrupts_ == 0) fail(1, started.message());
  stopRanks();
  stopServers();
  if (status_ != 0) {
    for (const auto& process : servers_) process->printTail();
    for (const auto& process : ranks_) process->printTail();
  }
  return status_;
}

Status Launcher::startAll() {
  signals_ = BPS_TRY(watchSignals());
  BPS_TRY(options_.serverHosts.empty() ? startServers() : startRemoteServers());
  BPS_TRY(waitListening());
  const EnvChanges common = BPS_TRY(commonEnv(options_, reaper_.keyPath(), addresses_));
  const auto servers = common.find("BPS_SERVERS");
  printSummary(options_, servers == common.end() ? environmentValue("BPS_SERVERS") : servers->second.value_or(""));
  return startRanks(common);
}

Status Launcher::startServers() {
  addresses_.resize(options_.servers.value_or(0));
  EnvChanges changes;
  if (environmentValue("BPS_SOCKET_IFNAME").empty() && environmentValue("NCCL_SOCKET_IFNAME").empty())
    changes["BPS_SOCKET_IFNAME"] = "lo";
  for (size_t server = 0; server < addresses_.size(); ++server) {
    ChildSpec process;
    process.argv = {siblingPath("bps-server"), "--listen", "127.0.0.1:0", "--key-file", reaper_.keyPath()};
    process.environment = environmentWith(changes);
    BPS_TRY(addServer(server, std::move(process)));
  }
  return {};
}

Status Launcher::startRemoteServers() {
  addresses_.resize(options_.serverHosts.size());
  const bool loopback = allOnLoopback(options_.hosts);
  for (size_t server = 0; server < addresses_.size(); ++server) {
    const ServerHost& host = options_.serverHosts[server];
    const std::string listen = BPS_TRY(hostAddress(host.name, loopback)) + ":" + std::to_string(host.port);
    ChildSpec process = BPS_TRY(
        remote(host.name, {{"BPS_SERVERS", {}}}, {"bps-server", "--listen", listen}, siblingPath("bps-server")));
    BPS_TRY(addServer(server, std::move(process)));
  }
  return {};
}

Status Launcher::addServer(size_t server, ChildSpec process) {
  constexpr std::string_view kListening = "listening on ";
  RunProcessSpec spec{fmt::format("server {}", server), std::move(process), options_.allOutput, {}};
  spec.onOutputLine = [this, server, kListening](std::string_view line) {
    if (line.substr(0, kListening.size()) == kListening) addresses_[server] = line.substr(kListening.size());
  };
  return add(servers_, std::move(spec));
}

Result<ChildSpec> Launcher::remote(const std::string& host, const EnvChanges& changes, std::vector<std::string> command,
                                   std::string alternative) const {
  RemoteProgram program{
      std::move(command), std::move(alternative), remoteEnvironment(changes, options_.exported), {}, {}};
  if (!reaper_.keyPath().empty()) program.key = BPS_TRY(fileBytes(reaper_.keyPath()));
  std::error_code none;
  program.directory = std::filesystem::current_path(none).string();
  ChildSpec process;
  process.argv = options_.ssh;
  process.argv.insert(process.argv.end(), {host, "/bin/sh -s"});
  process.environment = environmentWith({});
  process.input = remoteScript(program);
  return process;
}

Status Launcher::waitListening() {
  const Deadline listening = Deadline::in(kListenTime), deadline = end_.at() < listening.at() ? end_ : listening;
  for (size_t server = 0; server < servers_.size(); ++server) {
    while (addresses_[server].empty()) {
      if (interrupts_ > 0) return {Code::kInvalidUsage, "interrupted"};
      if (servers_[server]->status()) return {Code::kSystem, servers_[server]->exitText() + " before it was listening"};
      if (deadline.passed()) return failure(Code::kTimeout, "server {} is not listening after {}", server, "30 s");
      step(deadline);
    }
  }
  return {};
}

Status Launcher::startRanks(const EnvChanges& common) {
  size_t rank = 0;
  for (size_t machine = 0; machine < options_.machines(); ++machine) {
    for (size_t local = 0; local < options_.ranksOf(machine); ++local, ++rank) {
      EnvChanges changes = common;
      changes.merge(rankEnv(options_, rank));
      RunProcessSpec spec{std::to_string(rank), {}, options_.allOutput, {}};
      if (options_.hosts.empty()) spec.process = {options_.command, environmentWith(changes)};
      else spec.process = BPS_TRY(remote(options_.hosts[machine].name, changes, options_.command));
      spec.process.pipes = rank != 0;
      BPS_TRY(add(ranks_, std::move(spec)));
    }
  }
  return {};
}

Status Launcher::add(RunProcesses& processes, RunProcessSpec spec) {
  processes.push_back(BPS_TRY(RunProcess::start(std::move(spec))));
  reaper_.started(processes.back()->pid());
  return {};
}

void Launcher::supervise() {
  while (anyRuns(ranks_) && status_ == 0 && !end_.passed()) step(end_);
  if (anyRuns(ranks_) && status_ == 0) handleTimeout();
}

void Launcher::handleTimeout() {
  fail(kTimedOut, fmt::format("not done after {:g} s: ending all processes", options_.timeoutSeconds));
}

void Launcher::stopRanks() {
  if (status_ != kTimedOut && interrupts_ == 0) waitExit(ranks_, Deadline::in(kFailureReportTime));
  signalAll(ranks_, signal_ != 0 ? signal_ : SIGTERM);
  signalAll(ranks_, SIGCONT);
  waitExit(ranks_, Deadline::in(kGrace));
  signalAll(ranks_, SIGKILL);
  waitExit(ranks_, Deadline::in(kGrace));
}

void Launcher::stopServers() {
  signalAll(servers_, SIGTERM);
  waitExit(servers_, Deadline::in(kServerGrace));
  for (const auto& server : servers_)
    if (!server->status()) fail(1, fmt::format("{} did not end within {} s of SIGTERM", server->name(), 10));
  signalAll(servers_, SIGKILL);
  waitExit(servers_, Deadline::in(kGrace));
}

void Launcher::waitExit(const RunProcesses& processes, Deadline deadline) {
  const int before = interrupts_;
  while (anyRuns(processes) && !deadline.passed() && interrupts_ == before) step(deadline);
}

void Launcher::step(Deadline deadline) {
  std::vector<pollfd> polled{{signals_.get(), POLLIN, 0}};
  for (const RunProcesses* processes : {&servers_, &ranks_})
    for (const auto& process : *processes) {
      for (int fd : process->descriptors()) polled.push_back({fd, POLLIN, 0});
      if (process->feedDescriptor() >= 0) polled.push_back({process->feedDescriptor(), POLLOUT, 0});
    }
  ::poll(polled.data(), polled.size(), deadline.leftMs());
  for (const RunProcesses* processes : {&servers_, &ranks_})
    for (const auto& process : *processes) process->pump();
  readSignals();
  pollExits();
}

void Launcher::readSignals() {
  signalfd_siginfo info{};
  while (::read(signals_.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
    const auto number = static_cast<int>(info.ssi_signo);
    if (number == SIGCHLD) continue;
    signal_ = number;
    ++interrupts_;
    if (status_ == 0) fail(128 + number, fmt::format("{}: ending all processes", ::strsignal(number)));
  }
}

void Launcher::pollExits() {
  for (const auto& server : servers_) {
    if (!server->pollExit()) continue;
    reaper_.ended(server->pid());
    // A run can survive the loss of a server. The ranks decide whether this run survives.
    if (server->status() != 0 || anyRuns(ranks_)) printMessage(server->exitText());
  }
  for (const auto& rank : ranks_) {
    if (!rank->pollExit()) continue;
    reaper_.ended(rank->pid());
    if (rank->status() != 0 && status_ == 0) fail(*rank->status(), "rank " + rank->exitText());
  }
}

void Launcher::fail(int status, const std::string& why) {
  if (status_ == 0) status_ = status;
  printMessage(why);
}

}  // namespace bps
