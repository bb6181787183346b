#include "tests/fault_plugin/connection.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "src/base/format.h"

namespace bps::fault {

void abortOnMisuse(const std::string& what) {
  std::fprintf(stderr, "fault plugin: the caller breaks the rules: %s\n", what.c_str());
  std::abort();
}

namespace {

// Finds the address at which the CPU can access the region's GPU memory. The fake CUDA driver of
// this process provides that address.
void mapGpuMemory(Region& region) {
  const auto alias = reinterpret_cast<void* (*)(const void*)>(::dlsym(RTLD_DEFAULT, "fakeCudaAlias"));
  if (alias == nullptr) abortOnMisuse("GPU memory, and no fake CUDA in the process");
  region.gpu = static_cast<uint8_t*>(alias(region.data));
  if (region.gpu == region.data) abortOnMisuse("host memory registered as a GPU's");
  region.unflushed.resize(region.bytes);
}

}  // namespace

class Connection::ExclusiveUse {
 public:
  explicit ExclusiveUse(Connection& connection) : used_(connection.used_) {
    if (used_.exchange(true)) abortOnMisuse("two threads use one connection at once");
  }
  ExclusiveUse(const ExclusiveUse&) = delete;
  ExclusiveUse& operator=(const ExclusiveUse&) = delete;
  ~ExclusiveUse() { used_.store(false); }

 private:
  std::atomic<bool>& used_;
};

Connection::Connection(Context& context, std::shared_ptr<net::PluginAdapter> adapter,
                       std::shared_ptr<FaultInjector> injector, WrappedComm wrapped)
    : context_(context),
      adapter_(std::move(adapter)),
      injector_(std::move(injector)),
      inner_(wrapped.comm),
      sends_(wrapped.sends),
      random_(injector_->random()) {
  const bool polls = injector_->spec().noWait > 0 || hangupHidden();
  const int fd = polls ? -1 : adapter_->waitFd(inner_);
  if (fd >= 0) waitFd_ = UniqueFd(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
}

Connection::~Connection() {
  const ExclusiveUse use(*this);
  if (!regions_.empty()) abortOnMisuse(fmt::format("close with {} pieces of memory registered", regions_.size()));
  touchBuffers();
  if (inner_ != nullptr) adapter_->close(inner_, sends_ ? net::RawKind::kSend : net::RawKind::kReceive);
}

Result<Region*> Connection::registerMemory(void* data, size_t bytes, bool onGpu) {
  const ExclusiveUse use(*this);
  BPS_TRY(injector_->count(Call::kRegMr));
  if (!failure_.ok()) return failure_.clone();
  if (data == nullptr || bytes == 0) abortOnMisuse(fmt::format("regMr of {} bytes at {}", bytes, data));
  auto region = std::make_unique<Region>();
  region->data = static_cast<uint8_t*>(data);
  region->bytes = bytes;
  if (onGpu && injector_->spec().gpuTakes == 0) return Status(Code::kSystem, "injected refusal of GPU memory");
  if (onGpu) mapGpuMemory(*region);
  region->inner = BPS_TRY(adapter_->registerMemory(inner_, region->place(static_cast<uint8_t*>(data), sends_), bytes));
  Region* handle = region.get();
  regions_[handle] = std::move(region);
  return handle;
}

void Connection::deregister(Region* region) {
  const ExclusiveUse use(*this);
  if (!regions_.contains(region)) abortOnMisuse("deregMr of what is not registered here");
  const bool used = std::any_of(requests_.begin(), requests_.end(),
                                [&](const Request& request) { return request.live && request.memory == region; });
  onlyCloseAllowed_ = onlyCloseAllowed_ || used;
  if (inner_ != nullptr) adapter_->deregister(inner_, region->inner);
  regions_.erase(region);
}

void Connection::checkCloseNotRequired() const {
  if (onlyCloseAllowed_) abortOnMisuse("deregMr of memory that a request used, and no close after it");
}

// Until a connection is closed, the plugin may access the buffers of requests in flight. This
// function accesses every buffer in flight, and crashes if the caller has already freed the buffer.
void Connection::touchBuffers() {
  for (Request& request : requests_) {
    if (!request.live || request.complete || request.memory == nullptr) continue;
    volatile uint8_t* byte = request.data;
    if (sends_) static_cast<void>(*byte);
    else *byte = 0x5a;
  }
}

void Connection::checkMemory(const void* data, size_t bytes, Region* memory) const {
  if (bytes == 0) return;
  if (!regions_.contains(memory)) abortOnMisuse(fmt::format("{} bytes without registered memory", bytes));
  const auto* begin = static_cast<const uint8_t*>(data);
  if (begin < memory->data || begin + bytes > memory->data + memory->bytes)
    abortOnMisuse(fmt::format("{} bytes that reach out of their {} registered", bytes, memory->bytes));
}

Result<Request*> Connection::post(void* data, size_t bytes, Region* memory) {
  const ExclusiveUse use(*this);
  checkCloseNotRequired();
  checkMemory(data, bytes, memory);
  if (!failure_.ok()) return failure_.clone();
  Status counted = injector_->count(sends_ ? Call::kIsend : Call::kIrecv);
  if (!counted.ok()) return fail(std::move(counted), true);
  if (posted_ - done_ >= std::min(kMaxRequests, static_cast<size_t>(adapter_->maxRequests()))) return nullptr;
  refusedLastPost_ = random_.drawEvent(injector_->spec().busyChance);
  if (refusedLastPost_) return nullptr;
  void* region = memory != nullptr ? memory->inner : nullptr;
  if (bytes > 0) data = memory->place(static_cast<uint8_t*>(data), sends_);
  Result<void*> taken =
      sends_ ? adapter_->isend(inner_, data, bytes, region) : adapter_->irecv(inner_, data, bytes, region);
  if (!taken.ok() && hangupHidden()) return nullptr;
  void* inner = BPS_TRY(std::move(taken));
  if (inner == nullptr) return nullptr;
  Request& request = requests_[posted_++ % kMaxRequests];
  request = {this, inner, static_cast<uint8_t*>(data), bytes > 0 ? memory : nullptr, true, false, {}, false, 0, {}};
  return &request;
}

Result<Request*> Connection::flush(void* data, size_t bytes, Region* memory) {
  const ExclusiveUse use(*this);
  checkCloseNotRequired();
  checkMemory(data, bytes, memory);
  if (sends_ || memory->gpu == nullptr) abortOnMisuse("iflush of what no message came into on a GPU");
  if (flush_.live) abortOnMisuse("two flushes at once");
  if (!failure_.ok()) return failure_.clone();
  flush_ = {this, nullptr, static_cast<uint8_t*>(data), memory, true, false, {}, true, bytes, {}};
  return &flush_;
}

// A flush is complete when it is tested for the second time.
Result<net::Completion> Connection::testFlush() {
  if (!std::exchange(flush_.complete, true)) return net::Completion{};
  if (injector_->spec().gpuReaches == 0) {
    flush_.live = false;
    return Status(Code::kSystem, "injected failure of a flush");
  }
  Region& region = *flush_.memory;
  const std::ptrdiff_t at = flush_.data - region.data;
  std::copy_n(region.unflushed.data() + at, flush_.bytes, region.gpu + at);
  flush_.live = false;
  return net::Completion{true, 0};
}

// Tests whether the wrapped plugin has completed the request. If so, decides when the caller sees
// the completion.
Status Connection::completeInner(Request& request) {
  if (messageLost_) return {};
  Result<net::Completion> tested = adapter_->test(request.inner);
  if (!tested.ok() && hangupHidden()) return {};
  const net::Completion completion = BPS_TRY(std::move(tested));
  if (!completion.done) return {};
  messageLost_ = !sends_ && injector_->shouldLose();
  if (messageLost_) return {};
  request.completion = completion;
  request.complete = true;
  request.visibleAt = std::chrono::steady_clock::now();
  const Spec& spec = injector_->spec();
  if (random_.drawEvent(spec.delayChance))
    request.visibleAt +=
        std::chrono::microseconds(1 + random_.drawBelow(static_cast<uint64_t>(spec.delayMicroseconds)));
  if (!sends_ && injector_->shouldCorrupt(completion.bytes)) corrupt(request);
  if (!sends_ && injector_->shouldShorten(completion.bytes))
    request.completion.bytes = random_.drawBelow(completion.bytes);
  return {};
}

void Connection::corrupt(const Request& request) {
  const uint64_t bit = random_.drawBelow(request.completion.bytes * 8);
  request.data[bit / 8] = static_cast<uint8_t>(request.data[bit / 8] ^ (1U << (bit % 8)));
}

Result<net::Completion> Connection::test(Request& request) {
  const ExclusiveUse use(*this);
  checkCloseNotRequired();
  if (!request.live) abortOnMisuse("test of a request that is done");
  if (request.flushes) return testFlush();
  if (&request != &requests_[done_ % kMaxRequests]) abortOnMisuse("test of a request that is not the oldest");
  if (!failure_.ok()) return failure_.clone();
  Status counted = injector_->count(Call::kTest);
  if (!counted.ok()) return fail(std::move(counted), true);
  if (random_.drawEvent(injector_->spec().errorChance)) return fail({Code::kRemote, "injected error of a test"}, true);
  if (!request.complete) BPS_TRY(completeInner(request));
  if (!request.complete || std::chrono::steady_clock::now() < request.visibleAt) return net::Completion{};
  request.live = false;
  ++done_;
  if (injector_->shouldBreakAfter(request.completion.bytes)) [[maybe_unused]]
    const Status outcome =  // the caller's next operation reports this failure
        fail({Code::kRemote, "injected disconnect"}, injector_->spec().disconnectOneSide > 0);
  return request.completion;
}

// Makes the connection fail permanently. Unless `oneSide` is true, the peer sees that the
// connection is closed.
Status Connection::fail(Status why, bool oneSide) {
  failure_ = std::move(why);
  if (!oneSide) {
    // Replace the duplicate descriptor, which would keep the socket open. The caller may still wait
    // on the number of that descriptor, so the number must stay valid and become readable.
    const UniqueFd readable(::eventfd(1, EFD_CLOEXEC));
    if (waitFd_) ::dup3(readable.get(), waitFd_.get(), O_CLOEXEC);
    adapter_->close(std::exchange(inner_, nullptr), sends_ ? net::RawKind::kSend : net::RawKind::kReceive);
  }
  return failure_.clone();
}

Result<bool> Connection::arm() {
  const ExclusiveUse use(*this);
  const bool underWay = posted_ > done_;
  if (!failure_.ok() && !underWay) return failure_.clone();
  if (!failure_.ok() || refusedLastPost_ || flush_.live || (underWay && requests_[done_ % kMaxRequests].complete))
    return true;
  return messageLost_ ? Result<bool>(false) : adapter_->arm(inner_);
}

}  // namespace bps::fault
