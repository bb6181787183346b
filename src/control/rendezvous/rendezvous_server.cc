#include "src/control/rendezvous/rendezvous_server.h"

#include <unistd.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "src/base/guard.h"
#include "src/base/io/interfaces.h"
#include "src/base/log.h"
#include "src/base/mutex.h"
#include "src/control/rendezvous/rendezvous_state.h"

namespace bps {
namespace {

class RendezvousServer {
 public:
  RendezvousServer(AuthListener listener, Doorbell bell, const Address& address, uint32_t timeoutMs)
      : address_(address),
        bell_(std::move(bell)),
        state_(std::make_unique<RendezvousState>(std::move(listener), timeoutMs)),
        thread_([this] { main(); }) {}
  RendezvousServer(const RendezvousServer&) = delete;
  RendezvousServer& operator=(const RendezvousServer&) = delete;
  ~RendezvousServer() {
    stop();
    thread_.join();
  }

  void stop() {
    stopping_ = true;
    bell_.ring();
  }
  bool ended() const { return ended_; }
  const Address& address() const { return address_; }

 private:
  void main() {
    const Status status = guarded([this]() -> Status { return loop(); });
    if (!status.ok()) logWarn(Subsystem::kInit, "rendezvous server at {}: {}", address_.text(), status.message());
    state_.reset();
    ended_ = true;
  }
  Status loop() {
    PollSet set;
    while (!stopping_ && !state_->done()) {
      set.clear();
      set.add(bell_.fd());
      state_->watch(set);
      BPS_TRY(set.wait());
      state_->step(set);
    }
    return {};
  }

  const Address address_;
  Doorbell bell_;
  std::unique_ptr<RendezvousState> state_;  // only thread_ uses the state
  std::atomic<bool> stopping_{false};
  std::atomic<bool> ended_{false};
  std::thread thread_;  // declared last, because the thread uses all other fields
};

class Registry {
 public:
  ~Registry() {
    MutexLock lock(mutex_);
    forgetAfterFork();
    for (auto& root : roots_) root->stop();
    roots_.clear();
  }
  void add(std::unique_ptr<RendezvousServer> root) {
    MutexLock lock(mutex_);
    forgetAfterFork();
    joinEndedServers();
    roots_.push_back(std::move(root));
  }
  void end(const Address& address) {
    MutexLock lock(mutex_);
    forgetAfterFork();
    for (auto& root : roots_)
      if (root->address().text() == address.text()) root->stop();
    joinEndedServers();
  }
  size_t running() {
    MutexLock lock(mutex_);
    joinEndedServers();
    return roots_.size();
  }

 private:
  void joinEndedServers() BPS_REQUIRES(mutex_) {
    std::erase_if(roots_, [](const auto& root) { return root->ended(); });
  }
  // fork() does not copy threads, so a child process cannot join or destroy the rendezvous servers of its parent.
  void forgetAfterFork() BPS_REQUIRES(mutex_) {
    if (owner_ == ::getpid()) return;
    owner_ = ::getpid();
    for (auto& root : roots_) [[maybe_unused]] RendezvousServer* const left = root.release();
    roots_.clear();
  }
  Mutex mutex_;
  pid_t owner_ BPS_GUARDED_BY(mutex_) = ::getpid();
  std::vector<std::unique_ptr<RendezvousServer>> roots_ BPS_GUARDED_BY(mutex_);
};

Registry& registry() {
  static Registry instance;
  return instance;
}

}  // namespace

Result<Address> startRendezvous(const Env& env, const Key& key) {
  const auto timeoutMs = static_cast<uint32_t>(env.timeout.value * 1000);
  const Credentials credentials{key, env.auth, timeoutMs};
  UniqueFd socket = BPS_TRY(listenOnFirst(env.socketIfname, env.portRange, AuthListener::kBacklog));
  AuthListener listener = BPS_TRY(AuthListener::create(std::move(socket), credentials, Purpose::kRendezvous, 0));
  const Address address = BPS_TRY(listener.address());
  Doorbell bell = BPS_TRY(Doorbell::create());
  registry().add(std::make_unique<RendezvousServer>(std::move(listener), std::move(bell), address, timeoutMs));
  return address;
}

void stopRendezvous(const Address& address) { registry().end(address); }

size_t runningRendezvousServers() { return registry().running(); }

}  // namespace bps
