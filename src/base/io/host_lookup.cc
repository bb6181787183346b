#include "src/base/io/host_lookup.h"

#include <netdb.h>

#include <algorithm>
#include <ctime>

#include "src/base/format.h"
#include "src/base/mutex.h"
#include "src/base/process/fork_generation.h"

namespace bps {

namespace {

// getaddrinfo_a crashes under ThreadSanitizer, because it uses threads of the C library that
// ThreadSanitizer does not know. GCC and clang have different macros for an enabled
// ThreadSanitizer.
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define BPS_THREAD_SANITIZER 1
#endif
#endif
#if defined(BPS_THREAD_SANITIZER) || defined(__SANITIZE_THREAD__)
constexpr bool kHasAsyncResolver = false;
#else
constexpr bool kHasAsyncResolver = true;
#endif

// In a forked child the C library would wait for resolver threads that exist in the parent only.
bool canResolveAsync() { return kHasAsyncResolver && forkGeneration() == 0; }

}  // namespace

// The memory of one name lookup. A thread of the C library reads and writes this memory until the
// lookup has ended.
struct LookupRequest {
  explicit LookupRequest(const HostPort& place) : where(place), port(std::to_string(place.port)) {
    hints.ai_family = AF_UNSPEC;
    hints.ai_socktype = SOCK_STREAM;
    addrinfo numeric = hints;  // a numeric address needs no name service
    numeric.ai_flags = canResolveAsync() ? AI_NUMERICHOST : 0;
    outcome = ::getaddrinfo(where.host.c_str(), port.c_str(), &numeric, &look.ar_result);
    if (outcome == 0 || !canResolveAsync()) return;
    look.ar_name = where.host.c_str();
    look.ar_service = port.c_str();
    look.ar_request = &hints;
    gaicb* list[] = {&look};
    outcome = ::getaddrinfo_a(GAI_NOWAIT, list, 1, nullptr);
    async = outcome == 0;
  }
  LookupRequest(const LookupRequest&) = delete;
  LookupRequest& operator=(const LookupRequest&) = delete;
  ~LookupRequest() {
    if (look.ar_result != nullptr) ::freeaddrinfo(look.ar_result);
  }
  int state() const { return async ? ::gai_error(const_cast<gaicb*>(&look)) : outcome; }

  const HostPort where;
  const std::string port;
  addrinfo hints{};
  gaicb look{};
  int outcome = 0;
  bool async = false;  // a thread of the C library runs the lookup
};

namespace {

// Keeps the memory of lookups that were abandoned before they ended. The object is never destroyed,
// because a lookup may outlive main(). Any thread may call keep().
class AbandonedLookups {
 public:
  static AbandonedLookups& instance() {
    static auto* const all = new AbandonedLookups;
    return *all;
  }
  void keep(std::unique_ptr<LookupRequest> request) {
    MutexLock lock(mutex_);
    std::erase_if(requests_, [](const auto& earlier) { return earlier->state() != EAI_INPROGRESS; });
    requests_.push_back(std::move(request));
  }

 private:
  Mutex mutex_;
  std::vector<std::unique_ptr<LookupRequest>> requests_ BPS_GUARDED_BY(mutex_);
};

}  // namespace

HostLookup::HostLookup(const HostPort& where) : request_(std::make_unique<LookupRequest>(where)) {}

HostLookup::~HostLookup() {
  if (ended()) return;
  if (::gai_cancel(&request_->look) == EAI_NOTCANCELED) AbandonedLookups::instance().keep(std::move(request_));
}

bool HostLookup::ended() const { return request_->state() != EAI_INPROGRESS; }

void HostLookup::wait(Deadline deadline) const {
  const gaicb* list[] = {&request_->look};
  while (!ended() && !deadline.passed()) {
    const timespec slice{0, std::max(1, deadline.leftMs(100)) * 1000000L};
    [[maybe_unused]] const int woken = ::gai_suspend(list, 1, &slice);
  }
}

Result<std::vector<Address>> HostLookup::take() {
  const int state = request_->state();
  if (state != 0)
    return failure(Code::kInvalidArgument, "host \"{}\" cannot be found: {}", request_->where.host,
                   state == EAI_INPROGRESS ? "the name service does not answer" : ::gai_strerror(state));
  std::vector<Address> addresses;
  for (const addrinfo* a = request_->look.ar_result; a != nullptr; a = a->ai_next)
    addresses.emplace_back(a->ai_addr, a->ai_addrlen);
  return addresses;
}

Result<std::vector<Address>> resolve(const HostPort& where, Deadline deadline) {
  HostLookup lookup(where);
  lookup.wait(deadline);
  return lookup.take();
}

}  // namespace bps
