#include "tools/bps_server/signals.h"

#include <pthread.h>

#include "src/base/guard.h"
#include "src/base/log.h"

namespace bps {
namespace {

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

SignalHandler::SignalHandler(server::ControlServer& server, ReadKey readKey)
    : server_(server), readKey_(std::move(readKey)) {
  thread_ = std::thread([this] { wait(); });
}

SignalHandler::~SignalHandler() {
  stopping_.store(true);
  pthread_kill(thread_.native_handle(), kStopSignal);
  thread_.join();
}

void SignalHandler::wait() {
  logThreadName("server");
  const sigset_t set = handled();
  int number = 0;
  while (sigwait(&set, &number) == 0 && !stopping_.load()) {
    if (number == SIGHUP) reloadKey();
    else if (number == SIGUSR1) server_.logStatus();
    else if (number != kStopSignal) end(number);  // another process may have sent kStopSignal, which is then ignored
  }
}

void SignalHandler::end(int number) {
  const char* const name = number == SIGTERM ? "SIGTERM" : "SIGINT";
  if (draining_) {
    logWarn(Subsystem::kServer, "a second signal ({}): ending all jobs", name);
    return server_.stop();
  }
  draining_ = true;
  logInfo(Subsystem::kServer,
          "{}: no new jobs; the running jobs go on without this server, which ends when it has left the last one",
          name);
  server_.drain();
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
