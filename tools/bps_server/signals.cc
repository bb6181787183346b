#include "tools/bps_server/signals.h"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <ctime>

#include "src/base/format.h"
#include "src/base/guard.h"
#include "src/base/log.h"
#include "src/base/process/thread_name.h"

namespace bps {
namespace {

// The interval between two status lines for the service manager.
constexpr std::chrono::seconds kStatusInterval(2);
constexpr int kStopSignal = SIGUSR2;  // ends the thread of the SignalHandler

sigset_t handled() {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : {SIGTERM, SIGINT, SIGHUP, SIGUSR1, kStopSignal}) sigaddset(&set, number);
  return set;
}

}  // namespace

void SignalHandler::block() {
  const sigset_t set = handled();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  signal(SIGPIPE, SIG_IGN);
}

SignalHandler::SignalHandler(server::ControlServer& server, ReadKey readKey, Service service)
    : server_(server), readKey_(std::move(readKey)), service_(std::move(service)) {
  thread_ = std::thread([this] { wait(); });
}

SignalHandler::~SignalHandler() {
  stopping_.store(true);
  pthread_kill(thread_.native_handle(), kStopSignal);
  thread_.join();
}

void SignalHandler::wait() {
  logThreadName("server");
  nameThread("bps-signals");
  const sigset_t set = handled();
  service_.manager.notify("READY=1\n", service_.status());
  for (int number = nextSignal(set); !stopping_.load(); number = nextSignal(set)) {
    if (number > 0) handle(number);
    report();
  }
  service_.manager.notify("STOPPING=1\n", "ended");
}

// Returns 0 if it is time to report to the service manager. Without a manager, the thread sleeps until a signal.
int SignalHandler::nextSignal(const sigset_t& set) {
  std::chrono::microseconds interval = kStatusInterval;
  if (service_.manager.watchdog()) interval = std::min(interval, *service_.manager.watchdog() / 2);
  const auto seconds = std::chrono::floor<std::chrono::seconds>(interval);
  const timespec timeout{seconds.count(), static_cast<long>((interval - seconds).count() * 1000)};
  const int number =
      service_.manager.present() ? ::sigtimedwait(&set, nullptr, &timeout) : ::sigwaitinfo(&set, nullptr);
  return std::max(number, 0);
}

void SignalHandler::report() {
  if (!service_.manager.present()) return;
  const bool alive = service_.manager.watchdog() && service_.unhealthy().empty();
  service_.manager.notify(alive ? "WATCHDOG=1\n" : "", service_.status());
}

void SignalHandler::handle(int number) {
  if (number == SIGHUP) reload();
  else if (number == SIGUSR1) server_.logStatus();
  else if (number != kStopSignal) end(number);  // another process may have sent kStopSignal, which is then ignored
}

void SignalHandler::end(int number) {
  const char* const name = number == SIGTERM ? "SIGTERM" : "SIGINT";
  if (draining_) {
    logWarn(Subsystem::kServer, "a second signal ({}): ending all jobs", name);
    return server_.stop();
  }
  draining_ = true;
  service_.manager.notify("STOPPING=1\n");
  logInfo(Subsystem::kServer,
          "{}: no new jobs; the running jobs go on without this server, which ends when it has left the last one",
          name);
  server_.drain();
}

void SignalHandler::reload() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  service_.manager.notify(
      fmt::format("RELOADING=1\nMONOTONIC_USEC={}\n", int64_t{now.tv_sec} * 1'000'000 + now.tv_nsec / 1000));
  if (!logReopen()) logWarn(Subsystem::kServer, "SIGHUP: BPS_DEBUG_FILE cannot be opened again; keeping the old file");
  reloadKey();
  service_.manager.notify("READY=1\n");
}

void SignalHandler::reloadKey() {
  const Status read = guarded([this]() -> Status {
    server_.useKey(BPS_TRY(readKey_()));
    return {};
  });
  if (read.ok()) logInfo(Subsystem::kServer, "SIGHUP: read the key file again; new connections need its key");
  else logWarn(Subsystem::kServer, "SIGHUP: keeping the old key: {}", read.message());
}

}  // namespace bps
