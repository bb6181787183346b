#include "tools/net_plugin_check/side.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <thread>

namespace bps::check {
namespace {

constexpr uint8_t kHandleGuard = 0xa7;
constexpr size_t kMaxPeerMessageBytes = size_t{64} << 10;

const char* resultName(int code) {
  constexpr std::array<const char*, 9> kNames{"ncclSuccess",       "ncclUnhandledCudaError", "ncclSystemError",
                                              "ncclInternalError", "ncclInvalidArgument",    "ncclInvalidUsage",
                                              "ncclRemoteError",   "ncclInProgress",         "ncclTimeout"};
  return code >= 0 && static_cast<size_t>(code) < kNames.size() ? kNames[static_cast<size_t>(code)] : "no ncclResult_t";
}

}  // namespace

std::string milliseconds(int64_t ns) { return fmt::format("{:.2f} ms", static_cast<double>(ns) / 1e6); }

Status skipped(const std::string& why) { return {Code::kInProgress, why}; }

void Backoff::operator()() {
  if (++attempts_ < 200) std::this_thread::yield();
  else std::this_thread::sleep_for(std::chrono::microseconds(50));
}

HandleBox::HandleBox() {
  bytes_.fill(kHandleGuard);
  std::fill_n(bytes_.begin(), abi::kHandleBytes, uint8_t{0});
}

HandleBox::HandleBox(std::span<const uint8_t> bytes) : HandleBox() {
  std::copy_n(bytes.begin(), std::min(bytes.size(), abi::kHandleBytes), bytes_.begin());
}

Status HandleBox::checkGuard() const {
  for (size_t i = abi::kHandleBytes; i < bytes_.size(); ++i)
    if (bytes_[i] != kHandleGuard)
      return failure(Code::kInternal, "byte {} of the handle was written, but it has {} bytes", i, abi::kHandleBytes);
  return {};
}

Side::Side(const CheckOptions& options, int device, bool sends, UniqueFd channel, SideRecord* records)
    : options_(options), device_(device), sends_(sends), channel_(std::move(channel)), records_(records) {}

Status Side::open() {
  std::string path;
  table_ = BPS_TRY(loadTable(options_.plugin, options_.newestAbi, path));
  const auto whole = [&](bool initialised) -> Status {
    const char* what = table_->missing(initialised);
    if (what == nullptr) return {};
    return failure(Code::kInternal, "{} is null in the table of version {}", what, table_->version());
  };
  BPS_TRY(whole(false));
  BPS_TRY(expect(table_->init(&context_), Call::kInit));
  BPS_TRY(whole(true));
  BPS_TRY(expect(table_->devices(&deviceCount_), Call::kDevices));
  description_ = fmt::format("{} v{} ({})", table_->name(), table_->version(), path);
  if (deviceCount_ < 1) return failure(Code::kInternal, "{} found {} devices", table_->name(), deviceCount_);
  if (device_ >= deviceCount_)
    return failure(Code::kInternal, "device {} does not exist, the plugin has {}", device_, deviceCount_);
  return {};
}

Result<DeviceProperties> Side::deviceProperties() {
  DeviceProperties properties;
  BPS_TRY(expect(table_->getProperties(std::max(device_, 0), 0, properties), Call::kGetProperties));
  return properties;
}

Status Side::closePlugin() {
  if (!table_->hasContexts()) return {};
  return expect(table_->finalize(context_), Call::kFinalize);
}

Status Side::sendToPeer(std::span<const uint8_t> what) {
  Blob framed(what.begin(), what.end());
  framed.push_back(0);  // an empty message would look like the end of the connection
  if (::send(channel_.get(), framed.data(), framed.size(), MSG_NOSIGNAL) < 0)
    return {Code::kRemote, "the other side has ended"};
  return {};
}

Result<Blob> Side::receiveFromPeer() {
  // This deadline is longer than the timeout of calls into the plugin, because the errors of those
  // calls are more precise.
  const Deadline deadline = Deadline::in(std::chrono::duration_cast<std::chrono::nanoseconds>(
      std::chrono::duration<double>(2 * options_.timeoutSeconds + 1)));
  pollfd state{.fd = channel_.get(), .events = POLLIN, .revents = 0};
  while (::poll(&state, 1, deadline.leftMs()) <= 0)
    if (deadline.passed()) return Status(Code::kRemote, "the other side does not respond");
  Blob got(kMaxPeerMessageBytes);
  const ssize_t length = ::recv(channel_.get(), got.data(), got.size(), 0);
  if (length <= 0) return Status(Code::kRemote, "the other side has ended");
  got.resize(static_cast<size_t>(length) - 1);
  return got;
}

Status Side::barrier() {
  BPS_TRY(sendToPeer());
  return receiveFromPeer().status();
}

Deadline Side::makeDeadline() const {
  return Deadline::in(
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(options_.timeoutSeconds)));
}

Status Side::wait(const std::string& what, const std::function<Result<Progress>()>& step) {
  const Deadline deadline = makeDeadline();
  for (Backoff backoff;; backoff()) {
    if (BPS_TRY(step()) == Progress::kDone) return {};
    if (deadline.passed()) return failure(Code::kTimeout, "{} not done within {} s", what, options_.timeoutSeconds);
  }
}

Status Side::waitForRequest(const std::string& what, void* request, int* sizes) {
  return wait(what, [&]() -> Result<Progress> {
    int done = 0;
    BPS_TRY(expect(table_->test(request, &done, sizes), Call::kTest));
    return done != 0 ? Progress::kDone : Progress::kPending;
  });
}

Status Side::expect(int code, Call call) {
  const std::string warning = takeWarning();
  if (code == abi::kSuccess) return {};
  return failure(Code::kSystem, "{} returned {} ({}){}{}", nameOf(call), code, resultName(code),
                 warning.empty() ? "" : ": ", warning);
}

Status Side::checkLongest(std::initializer_list<Call> calls) {
  for (Call call : calls) {
    const int64_t took = record().slot.longestNs[static_cast<size_t>(call)].load();
    if (took > kMaxCallNs)
      return failure(Code::kInternal, "{} took {}, but it must not block (limit {})", nameOf(call), milliseconds(took),
                     milliseconds(kMaxCallNs));
  }
  return {};
}

std::string Side::longest(Call call) {
  return fmt::format("{} at most {}", nameOf(call),
                     milliseconds(record().slot.longestNs[static_cast<size_t>(call)].load()));
}

void Side::measure(const char* name, double value) {
  if (measures_ == record().measures.size()) return;
  Measure& measure = record().measures[measures_++];
  std::strncpy(measure.name.data(), name, measure.name.size() - 1);
  measure.value = value;
}

Result<void*> Side::listenFor(HandleBox& handle) {
  void* listener = nullptr;
  BPS_TRY(expect(table_->listen(context_, std::max(device_, 0), handle.data(), &listener), Call::kListen));
  if (listener == nullptr) return Status(Code::kInternal, "listen returned no listener");
  BPS_TRY(handle.checkGuard());
  return listener;
}

Result<void*> Side::acceptFrom(void* listener) {
  void* comm = nullptr;
  BPS_TRY(expect(table_->accept(listener, &comm), Call::kAccept));
  return comm;
}

Result<void*> Side::connectTo(HandleBox& handle) {
  void* comm = nullptr;
  BPS_TRY(expect(table_->connect(context_, std::max(device_, 0), handle.data(), &comm), Call::kConnect));
  BPS_TRY(handle.checkGuard());
  return comm;
}

Status Side::closeListener(void* listener) { return expect(table_->closeListen(listener), Call::kCloseListen); }

Status Side::closeEnd(void* comm, bool sends) {
  return sends ? expect(table_->closeSend(comm), Call::kCloseSend) : expect(table_->closeRecv(comm), Call::kCloseRecv);
}

Status Side::stepAll(std::vector<void*>& comms, const std::function<Result<void*>(size_t)>& attempt) {
  size_t left = comms.size();
  return wait(fmt::format("{} of {} connections:", sends_ ? "connect" : "accept", comms.size()),
              [&]() -> Result<Progress> {
                for (size_t i = comms.size(); i-- > 0;) {  // in reverse order, because the plugin must accept any order
                  if (comms[i] != nullptr) continue;
                  comms[i] = BPS_TRY(attempt(i));
                  if (comms[i] != nullptr) --left;
                }
                return left == 0 ? Progress::kDone : Progress::kPending;
              });
}

Result<std::vector<void*>> Side::connect(size_t n) {
  std::vector<void*> comms(n, nullptr);
  std::vector<HandleBox> handles;
  if (sends_) {
    const Blob bytes = BPS_TRY(receiveFromPeer());
    for (size_t i = 0; i < n; ++i)
      handles.emplace_back(std::span<const uint8_t>(bytes).subspan(i * abi::kHandleBytes, abi::kHandleBytes));
    BPS_TRY(stepAll(comms, [&](size_t i) { return connectTo(handles[i]); }));
    return comms;
  }
  std::vector<void*> listeners;
  Blob bytes;
  for (size_t i = 0; i < n; ++i) {
    HandleBox handle;
    listeners.push_back(BPS_TRY(listenFor(handle)));
    bytes.insert(bytes.end(), handle.bytes().begin(), handle.bytes().end());
  }
  BPS_TRY(sendToPeer(bytes));
  BPS_TRY(stepAll(comms, [&](size_t i) { return acceptFrom(listeners[i]); }));
  for (void* listener : listeners) BPS_TRY(closeListener(listener));
  return comms;
}

Result<void*> Side::connectOne() { return BPS_TRY(connect(1)).front(); }

Result<void*> Side::connectBack() {
  HandleBox handle;
  void *listener = nullptr, *comm = nullptr;
  if (sends_) {
    listener = BPS_TRY(listenFor(handle));
    BPS_TRY(sendToPeer(handle.bytes()));
  } else {
    handle = HandleBox(BPS_TRY(receiveFromPeer()));
  }
  const auto connected = [&]() -> Result<Progress> {
    comm = sends_ ? BPS_TRY(acceptFrom(listener)) : BPS_TRY(connectTo(handle));
    return comm != nullptr ? Progress::kDone : Progress::kPending;
  };
  BPS_TRY(wait("the reverse connection is", connected));
  if (listener != nullptr) BPS_TRY(closeListener(listener));
  return comm;
}

}  // namespace bps::check
