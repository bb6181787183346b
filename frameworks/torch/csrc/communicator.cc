#include "communicator.h"

#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <unistd.h>

#include <cstring>

#include "types.h"

namespace bps_torch {
namespace {

constexpr std::chrono::milliseconds kDevicePoll{20};  // between two looks at calls on device memory

std::vector<uint8_t> bytesOf(const std::string& text) { return {text.begin(), text.end()}; }

std::string rankKey(int rank) { return c10::str("bps/rank/", rank); }

// The scalar of PREMUL_SUM as an element of the tensor.
at::Tensor factorOf(const c10d::ReduceOp& op, const at::Tensor& tensor) {
  const auto* premul = dynamic_cast<const c10d::NCCLPreMulSumSupplement*>(op.supplement_.get());
  TORCH_CHECK(premul != nullptr, "all_reduce: PREMUL_SUM has no factor; make it by _make_nccl_premul_sum");
  if (premul->tensor_factor.defined()) return premul->tensor_factor.to(at::kCPU, tensor.scalar_type()).contiguous();
  return at::full({1}, premul->double_factor, at::TensorOptions().dtype(tensor.scalar_type()));
}

}  // namespace

Communicator::Communicator(GroupOptions options) : options_(std::move(options)), pid_(::getpid()) {}

std::string Communicator::name() const {
  return c10::str("bps, process group ", options_.name, ", rank ", options_.rank, " of ", options_.size);
}

std::string Communicator::describe(const BpsWork& work) const { return name() + ": " + work.describe(); }

void Communicator::check(bpsResult_t result, const char* what) const {
  if (result == bpsSuccess) return;
  const std::string detail = bpsGetLastError(nullptr);
  C10_THROW_ERROR(DistBackendError,
                  c10::str(name(), ": ", what, ": ", detail.empty() ? bpsGetErrorString(result) : detail));
}

std::exception_ptr Communicator::errorOf(const BpsWork& work, bpsResult_t outcome) const {
  std::string detail;
  {
    const std::lock_guard<std::mutex> lock(state_);
    detail = reason_;
  }
  if (detail.empty()) detail = bpsGetLastError(comm_);
  if (detail.empty()) detail = bpsGetErrorString(outcome);
  const c10::SourceLocation here{__func__, __FILE__, static_cast<uint32_t>(__LINE__)};
  return std::make_exception_ptr(c10::DistBackendError(here, describe(work) + ": " + detail));
}

bpsResult_t Communicator::asyncError() const {
  bpsResult_t state = bpsInvalidUsage;
  const bpsResult_t asked = bpsCommGetAsyncError(comm_, &state);
  return asked == bpsSuccess ? state : asked;
}

void Communicator::setTimeout(std::chrono::milliseconds timeout) {
  const std::lock_guard<std::mutex> lock(state_);
  options_.timeout = timeout;
}

std::chrono::milliseconds Communicator::timeout() const {
  const std::lock_guard<std::mutex> lock(state_);
  return options_.timeout;
}

// ---- Start ----------------------------------------------------------------------------------------------------------

// bps waits only BPS_TIMEOUT for the ranks, but a rank may load its data for minutes before its first call. So the ranks
// wait for each other in the store first, as long as the group allows.
void Communicator::waitForRanks() const {
  c10d::Store& store = *options_.store;
  store.set(rankKey(options_.rank), bytesOf("here"));
  if (store.add("bps/arrived", 1) == options_.size) store.set("bps/all", bytesOf("here"));
  try {
    store.wait({"bps/all"}, timeout());
  } catch (const std::exception& error) {
    std::string missing;
    for (int rank = 0; rank < options_.size; ++rank)
      if (!store.check({rankKey(rank)})) missing += c10::str(missing.empty() ? "" : ", ", rank);
    C10_THROW_ERROR(DistBackendError, c10::str(name(), ": these ranks have not started bps within ",
                                               timeout().count() / 1000, " s: ", missing, " (", error.what(), ")"));
  }
}

// Rank 0 puts bps's id into the store, or the reason why there is none.
bpsUniqueId Communicator::meet() const {
  waitForRanks();
  bpsUniqueId id{};
  c10d::Store& store = *options_.store;
  if (options_.rank == 0) {
    const bpsResult_t made = bpsGetUniqueId(&id);
    std::string value(id.internal, sizeof id.internal);
    if (made != bpsSuccess) value = bpsGetLastError(nullptr);
    store.set("bps/id", bytesOf((made == bpsSuccess ? "+" : "-") + value));
    check(made, "bpsGetUniqueId");
    return id;
  }
  const std::vector<uint8_t> value = store.get("bps/id");
  const std::string text(value.begin(), value.end());
  if (text.size() != 1 + sizeof id.internal || text[0] != '+')
    C10_THROW_ERROR(DistBackendError, c10::str(name(), ": rank 0 cannot start bps: ", text.substr(1)));
  std::memcpy(id.internal, text.data() + 1, sizeof id.internal);
  return id;
}

void Communicator::connect() {
  const std::lock_guard<std::mutex> lock(calls_);
  connectLocked();
}

void Communicator::connectLocked() {
  if (comm_ != nullptr) return;
  {
    const std::lock_guard<std::mutex> lock(state_);
    if (!reason_.empty()) C10_THROW_ERROR(DistBackendError, name() + ": " + reason_);
  }
  const bpsUniqueId id = meet();
  bpsComm_t comm = nullptr;
  check(bpsCommInitRank(&comm, options_.size, id, options_.rank), "cannot start");
  if (stream_ == nullptr) check(bpsHostStreamCreate(&stream_), "bpsHostStreamCreate");
  comm_ = comm;
  timer_ = std::thread([this] { runTimer(); });
}

std::string Communicator::facts() {
  const std::lock_guard<std::mutex> lock(calls_);
  connectLocked();
  std::string text(1U << 20, '\0');
  check(bpsCommDescribe(comm_, text.data(), text.size()), "bpsCommDescribe");
  return text.c_str();
}

bpsComm_t Communicator::split() {
  const std::lock_guard<std::mutex> lock(calls_);
  connectLocked();
  bpsComm_t made = nullptr;
  check(bpsCommSplit(comm_, 0, options_.rank, &made, nullptr), "bpsCommSplit");
  return made;
}

// ---- Calls ----------------------------------------------------------------------------------------------------------

bpsRedOp_t Communicator::makeOp(const AllReduce& call, const at::Tensor& tensor) {
  if (const auto builtIn = builtInOpOf(call.op)) return *builtIn;
  bpsRedOp_t op = bpsSum;
  at::Tensor factor = factorOf(call.op, tensor);
  check(bpsRedOpCreatePreMulSum(&op, factor.data_ptr(), *dataTypeOf(tensor.scalar_type()), bpsScalarHostImmediate, comm_),
        "PREMUL_SUM");
  return op;
}

void Communicator::issue(const AllReduce& call, cudaStream_t stream) {
  const bool several = call.tensors.size() > 1;
  if (several) check(bpsGroupStart(), "bpsGroupStart");
  bpsResult_t outcome = bpsSuccess;
  const char* failed = "bpsAllReduce";
  std::string detail;
  for (const at::Tensor& tensor : call.tensors) {
    const bpsRedOp_t op = makeOp(call, tensor);
    void* const data = tensor.data_ptr();
    outcome = bpsAllReduce(data, data, static_cast<size_t>(tensor.numel()), *dataTypeOf(tensor.scalar_type()), op, comm_,
                           stream);
    if (op >= bpsNumOps) bpsRedOpDestroy(op, comm_);
    if (outcome != bpsSuccess) break;
  }
  if (several) {
    const bpsResult_t ended = bpsGroupEnd();
    if (outcome == bpsSuccess) outcome = ended;
    failed = "bpsGroupEnd";
  }
  check(outcome, failed);
}

void Communicator::issueOnHost(const AllReduce& call, BpsWork& work) {
  issue(call, stream_);
  bpsHostEvent_t event{};
  check(bpsHostEventRecord(&event, stream_), "bpsHostEventRecord");
  work.markIssued(event);
}

// The calls run in a CUDA stream of the communicator. This stream waits for the work that the program has queued until now,
// and the program's stream waits for the result in BpsWork::synchronize().
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
  const std::lock_guard<std::mutex> lock(calls_);
  const c10::OptionalDeviceGuard device(call.tensors.front().is_cpu() ? std::nullopt
                                                                      : std::optional(call.tensors.front().device()));
  connectLocked();
  auto work = c10::make_intrusive<BpsWork>(
      shared_from_this(),
      BpsWork::Call{call.type, call.tensors, ++sequence_, call.timeout.count() < 0 ? timeout() : call.timeout});
  try {
    if (call.tensors.front().is_cpu()) issueOnHost(call, *work);
    else issueOnDevice(call, *work);
  } catch (const c10::Error&) {
    // A call that fails because the communicator has ended before says why it ended.
    const std::lock_guard<std::mutex> state(state_);
    if (reason_.empty()) throw;
    C10_THROW_ERROR(DistBackendError, describe(*work) + ": " + reason_);
  }
  const std::lock_guard<std::mutex> state(state_);
  inFlight_.push_back(work);
  if (inFlight_.size() == 1) changed_.notify_all();
  return work;
}

// ---- End ------------------------------------------------------------------------------------------------------------

void Communicator::revoke(const std::string& reason) {
  {
    const std::lock_guard<std::mutex> lock(state_);
    if (reason_.empty()) reason_ = reason;
  }
  if (comm_ != nullptr) bpsCommRevoke(comm_, 0);
}

void Communicator::shutdown() {
  if (::getpid() != pid_) {  // a forked child: the threads exist in its parent only
    if (timer_.joinable()) timer_.detach();
    if (completion_.joinable()) completion_.detach();
    return;
  }
  const std::lock_guard<std::mutex> lock(calls_);
  if (comm_ != nullptr) bpsCommDestroy(comm_);
  {
    const std::lock_guard<std::mutex> state(state_);
    if (reason_.empty()) reason_ = "the process group has been shut down";
    stopping_ = true;
  }
  changed_.notify_all();
  if (timer_.joinable()) timer_.join();
  if (completion_.joinable()) completion_.join();
  std::deque<c10::intrusive_ptr<BpsWork>> left;
  {
    const std::lock_guard<std::mutex> state(state_);
    left.swap(inFlight_);
  }
  for (const auto& work : left) work->finishIfDone();
  if (stream_ != nullptr) bpsHostStreamDestroy(std::exchange(stream_, nullptr));
  comm_ = nullptr;
}

// ---- Threads --------------------------------------------------------------------------------------------------------

void Communicator::completeLater(c10::intrusive_ptr<BpsWork> work) {
  const std::lock_guard<std::mutex> lock(state_);
  if (!completion_.joinable()) completion_ = std::thread([this] { runCompletion(); });
  toComplete_.push_back(std::move(work));
  changed_.notify_all();
}

// Waits for the next work whose future the program has asked for. Returns null at the end.
c10::intrusive_ptr<BpsWork> Communicator::nextToComplete() {
  Lock lock(state_);
  changed_.wait(lock, [&] { return stopping_ || !toComplete_.empty(); });
  if (toComplete_.empty()) return nullptr;
  c10::intrusive_ptr<BpsWork> work = std::move(toComplete_.front());
  toComplete_.pop_front();
  return work;
}

// Completes the works in the order in which the program asked for their futures. After shutdown() all are done.
void Communicator::runCompletion() {
  while (const c10::intrusive_ptr<BpsWork> work = nextToComplete()) work->finishWhenDone();
}

c10::intrusive_ptr<BpsWork> Communicator::oldest() {
  const std::lock_guard<std::mutex> lock(state_);
  return inFlight_.empty() ? nullptr : inFlight_.front();
}

void Communicator::forgetEnded() {
  std::vector<c10::intrusive_ptr<BpsWork>> ended;
  const std::lock_guard<std::mutex> lock(state_);
  while (!inFlight_.empty() && inFlight_.front()->ended()) {
    ended.push_back(std::move(inFlight_.front()));
    inFlight_.pop_front();
  }
}

void Communicator::endIfLate(BpsWork& work) {
  if (work.finishIfDone()) return;
  if (work.onDevice() && asyncError() != bpsSuccess) revoke(bpsGetLastError(comm_));
  if (BpsWork::Clock::now() < work.deadline()) return;
  revoke(c10::str(work.describe(), " is not complete after ", static_cast<double>(work.getTimeout().count()) / 1000,
                  " s, the time-out of the process group"));
}

// Looks at the oldest work in flight: at its deadline, and more often if it is on device memory.
void Communicator::runTimer() {
  while (true) {
    const c10::intrusive_ptr<BpsWork> work = oldest();
    if (work != nullptr) endIfLate(*work);
    Lock lock(state_);
    const auto stopping = [&] { return stopping_; };
    if (stopping_) return;
    if (work == nullptr) {
      changed_.wait(lock, [&] { return stopping_ || !inFlight_.empty(); });
    } else {
      const auto soon = BpsWork::Clock::now() + kDevicePoll;
      changed_.wait_until(lock, work->onDevice() || work->deadline() < soon ? soon : work->deadline(), stopping);
    }
  }
}

}  // namespace bps_torch
