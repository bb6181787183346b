#include "src/control/root/root.h"

#include <unistd.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "src/base/guard.h"
#include "src/base/log.h"
#include "src/base/mutex.h"
#include "src/control/root/root_desk.h"

namespace bps {
namespace {

class Root {
 public:
  Root(Doorman doorman, Doorbell bell, const Address& address, uint32_t timeoutMs)
      : address_(address),
        bell_(std::move(bell)),
        desk_(std::make_unique<RootDesk>(std::move(doorman), timeoutMs)),
        thread_([this] { main(); }) {}
  Root(const Root&) = delete;
  Root& operator=(const Root&) = delete;
  ~Root() {
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
    if (!status.ok()) logWarn(Subsystem::kInit, "root at {}: {}", address_.text(), status.message());
    desk_.reset();
    ended_ = true;
  }
  Status loop() {
    PollSet set;
    while (!stopping_ && !desk_->done()) {
      set.clear();
      set.add(bell_.fd());
      desk_->watch(set);
      BPS_TRY(set.wait());
      desk_->step(set);
    }
    return {};
  }

  const Address address_;
  Doorbell bell_;
  std::unique_ptr<RootDesk> desk_;  // the thread's
  std::atomic<bool> stopping_{false};
  std::atomic<bool> ended_{false};
  std::thread thread_;  // last: it uses the others
};

class Registry {
 public:
  ~Registry() {
    MutexLock lock(mutex_);
    forgetAfterFork();
    for (auto& root : roots_) root->stop();
    roots_.clear();
  }
  void add(std::unique_ptr<Root> root) {
    MutexLock lock(mutex_);
    forgetAfterFork();
    sweep();
    roots_.push_back(std::move(root));
  }
  void end(const Address& address) {
    MutexLock lock(mutex_);
    forgetAfterFork();
    for (auto& root : roots_)
      if (root->address().text() == address.text()) root->stop();
    sweep();
  }
  size_t running() {
    MutexLock lock(mutex_);
    sweep();
    return roots_.size();
  }

 private:
  void sweep() BPS_REQUIRES(mutex_) {
    std::erase_if(roots_, [](const auto& root) { return root->ended(); });
  }
  // The threads stayed with the parent: their objects cannot be joined here, only left alone.
  void forgetAfterFork() BPS_REQUIRES(mutex_) {
    if (owner_ == ::getpid()) return;
    owner_ = ::getpid();
    for (auto& root : roots_) [[maybe_unused]] Root* const left = root.release();
    roots_.clear();
  }
  Mutex mutex_;
  pid_t owner_ BPS_GUARDED_BY(mutex_) = ::getpid();
  std::vector<std::unique_ptr<Root>> roots_ BPS_GUARDED_BY(mutex_);
};

Registry& registry() {
  static Registry instance;
  return instance;
}

}  // namespace

Result<Address> startRoot(const Env& env, const Key& key) {
  Address address = BPS_TRY(selectInterfaces(env.socketIfname)).front().address;
  address.setPort(0);
  const auto timeoutMs = static_cast<uint32_t>(env.timeout.value * 1000);
  const Credentials credentials{key, env.auth, timeoutMs};
  UniqueFd listener = BPS_TRY(listenOn(address, env.portRange, Doorman::kBacklog));
  Doorman doorman = BPS_TRY(Doorman::create(std::move(listener), credentials, Purpose::kRedirect, 0));
  address = BPS_TRY(doorman.address());
  Doorbell bell = BPS_TRY(Doorbell::create());
  registry().add(std::make_unique<Root>(std::move(doorman), std::move(bell), address, timeoutMs));
  return address;
}

void endRoot(const Address& address) { registry().end(address); }

size_t rootsRunning() { return registry().running(); }

}  // namespace bps
