#include "communicator.h"

#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <unistd.h>

#include <algorithm>
#include <set>

#include "rendezvous.h"
#include "types.h"

namespace bps_torch {
namespace {

using Lock = std::unique_lock<std::mutex>;
using Guard = std::lock_guard<std::mutex>;
using std::chrono::milliseconds;

constexpr milliseconds kTimerInterval{1000}, kDeviceTimerInterval{20};

// All communicators of the process.
struct Registry {
  std::mutex mutex;
  std::vector<std::weak_ptr<Communicator>> all;
};

Registry& registry() {
  static auto* instance = new Registry;  // never freed, because threads may use it until the process ends
  return *instance;
}

// The scalar of PREMUL_SUM as an element of the tensor.
at::Tensor factorOf(const c10d::ReduceOp& op, const at::Tensor& tensor) {
  TORCH_CHECK(tensor.is_floating_point(), "all_reduce: PREMUL_SUM needs a floating type, not ", tensor.scalar_type());
  const auto* premul = dynamic_cast<const c10d::NCCLPreMulSumSupplement*>(op.supplement_.get());
  TORCH_CHECK(premul != nullptr, "all_reduce: PREMUL_SUM has no factor; make it by _make_nccl_premul_sum");
  if (premul->tensor_factor.defined()) return premul->tensor_factor.to(at::kCPU, tensor.scalar_type()).contiguous();
  return at::full({1}, premul->double_factor, at::TensorOptions().dtype(tensor.scalar_type()));
}

// Frees the operations that a call has made.
class OpsOfCall {
 public:
  OpsOfCall(std::vector<bpsRedOp_t> ops, bpsComm_t comm) : ops_(std::move(ops)), comm_(comm) {}
  ~OpsOfCall() {
    for (const bpsRedOp_t op : ops_)
      if (op >= bpsNumOps) bpsRedOpDestroy(op, comm_);
  }
  OpsOfCall(const OpsOfCall&) = delete;
  OpsOfCall& operator=(const OpsOfCall&) = delete;
  bpsRedOp_t operator[](size_t index) const { return ops_[index]; }

 private:
  const std::vector<bpsRedOp_t> ops_;
  const bpsComm_t comm_;
};

}  // namespace

std::shared_ptr<Communicator> Communicator::create(GroupOptions options) {
  std::shared_ptr<Communicator> made(new Communicator(std::move(options)));
  const Guard lock(registry().mutex);
  std::erase_if(registry().all, [](const auto& communicator) { return communicator.expired(); });
  registry().all.push_back(made);
  return made;
}

void Communicator::shutdownAll() {
  std::vector<std::weak_ptr<Communicator>> all;
  {
    const Guard lock(registry().mutex);
    all = registry().all;
  }
  for (const auto& each : all) {
    const std::shared_ptr<Communicator> communicator = each.lock();
    if (communicator == nullptr) continue;
    communicator->dropSettled();
    if (communicator->hasWorks()) communicator->revoke("the process ends");
    communicator->shutdown();
    communicator->completion_->awaitCallbacks();
  }
}

Communicator::Communicator(GroupOptions options) : options_(std::move(options)), pid_(::getpid()) {}

// ---- State and errors -----------------------------------------------------------------------------------------------

std::string Communicator::name() const {
  return c10::str("bps, process group ", options_.name, ", rank ", options_.rank, " of ", options_.size);
}

std::string Communicator::describe(const BpsWork& work) const { return name() + ": " + work.describe(); }

std::string Communicator::reason() const {
  const Guard lock(state_);
  return reason_;
}

bool Communicator::hasWorks() const {
  const Guard lock(state_);
  return !inFlight_.empty();
}

uint64_t Communicator::calls() const {
  const Guard lock(state_);
  return sequence_;
}

void Communicator::setTimeout(milliseconds timeout) {
  const Guard lock(state_);
  options_.timeout = timeout;
}

milliseconds Communicator::timeout() const {
  const Guard lock(state_);
  return options_.timeout;
}

void Communicator::check(bpsResult_t result, const char* what) const {
  if (result == bpsSuccess) return;
  const std::string detail = bpsGetLastError(nullptr);
  C10_THROW_ERROR(DistBackendError,
                  c10::str(name(), ": ", what, ": ", detail.empty() ? bpsGetErrorString(result) : detail));
}

std::exception_ptr Communicator::errorOf(const BpsWork& work, bpsResult_t outcome) const {
  std::string detail;
  {
    const Guard lock(state_);
    detail = reason_;
    if (detail.empty() && comm_ != nullptr) detail = bpsGetLastError(comm_);
  }
  if (detail.empty()) detail = bpsGetErrorString(outcome);
  const c10::SourceLocation here{__func__, __FILE__, static_cast<uint32_t>(__LINE__)};
  return std::make_exception_ptr(c10::DistBackendError(here, describe(work) + ": " + detail));
}

bpsResult_t Communicator::asyncError() const {
  const Guard lock(state_);
  if (comm_ == nullptr) return bpsInvalidUsage;
  bpsResult_t state = bpsInvalidUsage;
  const bpsResult_t asked = bpsCommGetAsyncError(comm_, &state);
  return asked == bpsSuccess ? state : asked;
}

void Communicator::requireOwnProcess() const {
  TORCH_CHECK(::getpid() == pid_, name(), ": a forked process cannot use the process group of its parent");
}

// ---- Start ----------------------------------------------------------------------------------------------------------

void Communicator::startLocked() {
  if (const std::string why = reason(); !why.empty()) C10_THROW_ERROR(DistBackendError, name() + ": " + why);
  const bpsUniqueId id =
      Rendezvous{*options_.store, options_.rank, options_.size, name(), timeout(), [this] { return reason(); }}.meet();
  if (stream_ == nullptr) check(bpsHostStreamCreate(&stream_), "bpsHostStreamCreate");
  bpsComm_t comm = nullptr;
  check(bpsCommInitRank(&comm, options_.size, id, options_.rank), "cannot start");
  {
    const Guard lock(state_);
    if (reason_.empty()) {
      comm_ = comm;
      timer_ = std::thread([self = shared_from_this()] { self->runTimer(); });
      return;
    }
  }
  bpsCommAbort(comm);
  C10_THROW_ERROR(DistBackendError, name() + ": " + reason());
}

bpsComm_t Communicator::connectLocked() {
  requireOwnProcess();
  const auto current = [&] {
    const Guard lock(state_);
    return comm_;
  };
  if (current() != nullptr) return current();
  try {
    startLocked();
  } catch (const c10::Error& error) {
    // The ranks cannot meet a second time in this store.
    const Guard lock(state_);
    if (reason_.empty()) reason_ = error.what_without_backtrace();
    throw;
  }
  return current();
}

void Communicator::connect() {
  const Guard lock(calls_);
  connectLocked();
}

std::string Communicator::facts() {
  const Guard lock(calls_);
  std::string text(1U << 20, '\0');
  check(bpsCommDescribe(connectLocked(), text.data(), text.size()), "bpsCommDescribe");
  return text.c_str();
}

bpsComm_t Communicator::split() {
  const Guard lock(calls_);
  bpsComm_t made = nullptr;
  check(bpsCommSplit(connectLocked(), 0, options_.rank, &made, nullptr), "bpsCommSplit");
  return made;
}

// ---- Calls ----------------------------------------------------------------------------------------------------------

std::vector<bpsRedOp_t> Communicator::makeOps(const AllReduce& call) {
  std::vector<bpsRedOp_t> ops;
  for (const at::Tensor& tensor : call.tensors) {
    if (const auto builtIn = builtInOpOf(call.op)) {
      ops.push_back(*builtIn);
      continue;
    }
    at::Tensor factor = factorOf(call.op, tensor);
    bpsRedOp_t op = bpsSum;
    check(bpsRedOpCreatePreMulSum(&op, factor.data_ptr(), *dataTypeOf(tensor.scalar_type()), bpsScalarHostImmediate,
                                  connectLocked()),
          "PREMUL_SUM");
    ops.push_back(op);
  }
  return ops;
}

// Nothing throws between bpsGroupStart and bpsGroupEnd, because an open group would hold back all later calls of the
// thread.
void Communicator::issue(const AllReduce& call, cudaStream_t stream) {
  const bpsComm_t comm = connectLocked();
  std::vector<void*> buffers;
  for (const at::Tensor& tensor : call.tensors) buffers.push_back(tensor.data_ptr());
  const OpsOfCall ops(makeOps(call), comm);
  const bool several = buffers.size() > 1;
  if (several) check(bpsGroupStart(), "bpsGroupStart");
  bpsResult_t outcome = bpsSuccess;
  for (size_t i = 0; i < buffers.size() && outcome == bpsSuccess; ++i)
    outcome = bpsAllReduce(buffers[i], buffers[i], static_cast<size_t>(call.tensors[i].numel()),
                           *dataTypeOf(call.tensors[i].scalar_type()), ops[i], comm, stream);
  const std::string detail = outcome == bpsSuccess ? "" : bpsGetLastError(nullptr);
  const bpsResult_t ended = several ? bpsGroupEnd() : bpsSuccess;
  if (outcome != bpsSuccess) C10_THROW_ERROR(DistBackendError, name() + ": " + detail);
  check(ended, "bpsGroupEnd");
}

void Communicator::issueOnHost(const AllReduce& call, BpsWork& work) {
  issue(call, stream_);
  bpsHostEvent_t event{};
  check(bpsHostEventRecord(&event, stream_), "bpsHostEventRecord");
  work.markIssued(event);
}

// The calls run in a CUDA stream of the communicator. This stream waits for the work that the program has queued until
// now, and the program's stream waits for the result in BpsWork::synchronize().
void Communicator::issueOnDevice(const AllReduce& call, BpsWork& work) {
  const c10::Device device = call.tensors.front().device();
  const c10::impl::VirtualGuardImpl guard(device.type());
  if (!device_ || device_->device() != device) device_ = guard.getStreamFromGlobalPool(device, true);
  c10::Event ready(device.type());
  ready.record(guard.getStream(device));
  ready.block(*device_);
  issue(call, static_cast<cudaStream_t>(device_->native_handle()));
  DeviceCall inFlight{*device_, c10::Event(device.type())};
  inFlight.done.record(*device_);
  for (const at::Tensor& tensor : call.tensors) guard.recordDataPtrOnStream(tensor.storage().data_ptr(), *device_);
  work.markIssued(std::move(inFlight));
}

c10::intrusive_ptr<BpsWork> Communicator::allReduce(const AllReduce& call) {
  requireOwnProcess();
  dropSettled();
  const Guard lock(calls_);
  const bool onHost = call.tensors.front().is_cpu();
  const c10::OptionalDeviceGuard device(onHost ? std::nullopt : std::optional(call.tensors.front().device()));
  connectLocked();
  const milliseconds limit = call.timeout.count() < 0 ? timeout() : call.timeout;
  auto work =
      c10::make_intrusive<BpsWork>(shared_from_this(), BpsWork::Call{call.type, call.tensors, calls() + 1, limit});
  try {
    if (onHost) issueOnHost(call, *work);
    else issueOnDevice(call, *work);
  } catch (const c10::Error&) {
    // If this process has ended the communicator before, the error says why.
    const std::string why = reason();
    if (why.empty()) throw;
    C10_THROW_ERROR(DistBackendError, describe(*work) + ": " + why);
  }
  const Guard state(state_);
  ++sequence_;
  inFlight_.push_back(work);
  if (inFlight_.size() == 1) changed_.notify_all();
  return work;
}

// ---- End ------------------------------------------------------------------------------------------------------------

// After a failure, a CUDA stream stands until the communicator is aborted.
void Communicator::revoke(const std::string& reason) {
  if (::getpid() != pid_) return;
  bpsComm_t aborted = nullptr;
  {
    const Guard lock(state_);
    bpsResult_t failed = bpsSuccess;
    if (comm_ != nullptr) bpsCommGetAsyncError(comm_, &failed);
    if (reason_.empty()) reason_ = failed == bpsSuccess ? reason : bpsGetLastError(comm_);
    if (comm_ != nullptr && device_) aborted = std::exchange(comm_, nullptr);
    else if (comm_ != nullptr) bpsCommRevoke(comm_, 0);
  }
  if (aborted != nullptr) bpsCommAbort(aborted);
}

void Communicator::shutdown() {
  if (::getpid() != pid_) {  // a forked child: the threads exist in its parent only
    if (timer_.joinable()) timer_.detach();
    completion_->abandon();
    return;
  }
  {
    const Guard lock(state_);
    // A rank that still waits for the others gives up. The calls of a communicator that has started are awaited.
    if (reason_.empty() && comm_ == nullptr) reason_ = "the process group has been shut down";
  }
  const Guard lock(calls_);
  bpsComm_t comm = nullptr;
  {
    const Guard state(state_);
    comm = comm_;
  }
  const bpsResult_t ended = comm == nullptr ? bpsSuccess : bpsCommFinalize(comm);
  const std::string failure = ended == bpsSuccess ? "" : bpsGetLastError(comm);
  {
    const Guard state(state_);
    if (reason_.empty()) reason_ = failure.empty() ? "the process group has been shut down" : failure;
    stopping_ = true;
  }
  changed_.notify_all();
  if (timer_.joinable()) timer_.join();
  completion_->stop();
  dropSettled();
  {
    const Guard state(state_);
    comm = std::exchange(comm_, nullptr);
  }
  if (comm != nullptr) bpsCommDestroy(comm);
  if (stream_ != nullptr) bpsHostStreamDestroy(std::exchange(stream_, nullptr));
}

// ---- Threads --------------------------------------------------------------------------------------------------------

// Drops the works whose calls have ended. They know their outcome from now on.
void Communicator::dropSettled() {
  std::deque<c10::intrusive_ptr<BpsWork>> works;
  {
    const Guard lock(state_);
    works = inFlight_;
  }
  std::set<const BpsWork*> settled;
  for (const auto& work : works) {
    if (!work->settleIfDone()) break;  // calls end in order, except a few
    settled.insert(work.get());
  }
  const Guard lock(state_);
  while (!inFlight_.empty() && settled.contains(inFlight_.front().get())) inFlight_.pop_front();
}

void Communicator::endIfLate() {
  c10::intrusive_ptr<BpsWork> late;
  bool deviceFailed = false;
  {
    const Guard lock(state_);
    const auto now = BpsWork::Clock::now();
    for (const auto& work : inFlight_)
      if (now >= work->deadline() && late == nullptr) late = work;
    deviceFailed = device_.has_value() && !inFlight_.empty();
  }
  if (deviceFailed && asyncError() != bpsSuccess) revoke("");
  if (late == nullptr || late->settleIfDone()) return;
  revoke(c10::str(late->describe(), " is not complete after ", static_cast<double>(late->getTimeout().count()) / 1000,
                  " s, the time-out of the process group"));
}

void Communicator::runTimer() {
  while (true) {
    dropSettled();
    endIfLate();
    Lock lock(state_);
    changed_.wait(lock, [&] { return stopping_ || !inFlight_.empty(); });
    auto until = BpsWork::Clock::now() + (device_ ? kDeviceTimerInterval : kTimerInterval);
    for (const auto& work : inFlight_) until = std::min(until, work->deadline());
    until = std::max(until, BpsWork::Clock::now() + kDeviceTimerInterval);
    changed_.wait_until(lock, until, [&] { return stopping_; });
    if (stopping_) return;
  }
}

}  // namespace bps_torch
