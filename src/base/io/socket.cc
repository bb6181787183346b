#include "src/base/io/socket.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstring>
#include <ctime>
#include <memory>

#include "src/base/format.h"
#include "src/base/mutex.h"
#include "src/base/process/fork_generation.h"

namespace bps {

Address::Address(const sockaddr* address, socklen_t length) : length_(std::min<socklen_t>(length, sizeof storage_)) {
  std::memcpy(&storage_, address, length_);
}

uint16_t Address::port() const {
  if (family() == AF_INET6) return ntohs(reinterpret_cast<const sockaddr_in6*>(&storage_)->sin6_port);
  return ntohs(reinterpret_cast<const sockaddr_in*>(&storage_)->sin_port);
}

void Address::setPort(uint16_t port) {
  if (family() == AF_INET6) reinterpret_cast<sockaddr_in6*>(&storage_)->sin6_port = htons(port);
  else reinterpret_cast<sockaddr_in*>(&storage_)->sin_port = htons(port);
}

bool Address::isAny() const {
  if (family() == AF_INET6)
    return IN6_IS_ADDR_UNSPECIFIED(&reinterpret_cast<const sockaddr_in6*>(&storage_)->sin6_addr);
  return reinterpret_cast<const sockaddr_in*>(&storage_)->sin_addr.s_addr == htonl(INADDR_ANY);
}

bool Address::isLoopback() const {
  if (family() == AF_INET6) return IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6*>(&storage_)->sin6_addr);
  return (ntohl(reinterpret_cast<const sockaddr_in*>(&storage_)->sin_addr.s_addr) >> 24) == 127;
}

Address Address::any() const {
  Address all = *this;
  if (family() == AF_INET6) reinterpret_cast<sockaddr_in6*>(&all.storage_)->sin6_addr = in6addr_any;
  else reinterpret_cast<sockaddr_in*>(&all.storage_)->sin_addr.s_addr = htonl(INADDR_ANY);
  return all;
}

std::string Address::host() const {
  std::array<char, NI_MAXHOST> host{};
  if (length_ == 0 || ::getnameinfo(data(), length_, host.data(), host.size(), nullptr, 0, NI_NUMERICHOST) != 0)
    return "?";
  return host.data();
}

std::string Address::text() const {
  if (length_ == 0) return "?";
  return family() == AF_INET6 ? fmt::format("[{}]:{}", host(), port()) : fmt::format("{}:{}", host(), port());
}

Result<HostPort> parseHostPort(std::string_view text, uint16_t defaultPort) {
  const auto bad = [&](const char* why) {
    return failure(Code::kInvalidArgument, "\"{}\" is not host:port: {}", text, why);
  };
  HostPort out;
  std::string_view rest = text;
  if (!rest.empty() && rest.front() == '[') {
    const size_t close = rest.find(']');
    if (close == std::string_view::npos) return bad("no closing bracket");
    out.host = rest.substr(1, close - 1);
    rest.remove_prefix(close + 1);
  } else {
    const size_t colon = rest.rfind(':');
    out.host = rest.substr(0, colon);
    rest = colon == std::string_view::npos ? std::string_view() : rest.substr(colon);
  }
  if (out.host.empty()) return bad("no host");
  if (rest.empty()) {
    if (defaultPort == 0) return bad("no port");
    out.port = defaultPort;
    return out;
  }
  unsigned port = 0;
  auto [end, error] = std::from_chars(rest.data() + 1, rest.data() + rest.size(), port);
  if (rest.front() != ':' || error != std::errc{} || end != rest.data() + rest.size() || port > 65535)
    return bad("the port is not a number up to 65535");
  out.port = static_cast<uint16_t>(port);
  return out;
}

namespace {

// getaddrinfo_a uses threads of the C library, which ThreadSanitizer does not know; it crashes under ThreadSanitizer.
// GCC and clang have different macros for an enabled ThreadSanitizer.
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

// The memory of one name lookup. A thread of the C library reads and writes it until the lookup has ended.
struct LookupRequest {
  explicit LookupRequest(const HostPort& place) : where(place), port(std::to_string(place.port)) {
    hints.ai_family = AF_UNSPEC;
    hints.ai_socktype = SOCK_STREAM;
    addrinfo numeric = hints;  // an address needs no name service
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

// Keeps the memory of lookups that were abandoned before they ended. Never destroyed, because a lookup may outlive
// main(). Any thread.
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

namespace {

std::vector<Interface> addressesUp();

// Adds a hint to the system's error text: which port or address would work.
Status cannotListen(const Address& address, int error) {
  std::string hint;
  if (error == EACCES) hint = "; ports below 1024 need root or CAP_NET_BIND_SERVICE";
  if (error == EADDRNOTAVAIL) {
    for (const Interface& each : addressesUp()) {
      Address own = each.address;
      own.setPort(address.port());
      hint += fmt::format("{}{} on {}", hint.empty() ? "; this machine has " : ", ", own.text(), each.name);
    }
  }
  return {Code::kSystem, systemFailure("cannot listen on " + address.text(), error).message() + hint};
}

// On failure of bind or listen, sets `error` to the errno value.
Result<UniqueFd> listenAt(const Address& address, int backlog, int& error) {
  UniqueFd fd(::socket(address.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) return systemFailure("socket", errno);
  const int one = 1;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  if (::bind(fd.get(), address.data(), address.length()) == 0 && ::listen(fd.get(), backlog) == 0) return fd;
  error = errno;
  return cannotListen(address, error);
}

}  // namespace

Result<UniqueFd> listenOn(const Address& address, int backlog) {
  int error = 0;
  return listenAt(address, backlog, error);
}

// The search starts after the port of the previous call, and at a different port in each process. The first port that
// it tries is therefore usually free.
Result<UniqueFd> listenOn(const Address& address, const PortRange& ports, int backlog) {
  static std::atomic<uint32_t> next{static_cast<uint32_t>(::getpid()) * 7919U};
  if (address.port() != 0 || ports.first == 0) return listenOn(address, backlog);
  const uint32_t count = ports.last - ports.first + 1U, begin = next.fetch_add(1);
  Address tried = address;
  for (uint32_t i = 0; i < count; ++i) {
    tried.setPort(static_cast<uint16_t>(ports.first + (begin + i) % count));
    int error = 0;
    Result<UniqueFd> listening = listenAt(tried, backlog, error);
    if (listening.ok()) next.store(begin + i + 1);
    if (listening.ok() || error != EADDRINUSE) return listening;
  }
  return failure(Code::kSystem, "no port of {}-{} is free on {} (BPS_PORT_RANGE, or --data-ports of a server)",
                 ports.first, ports.last, address.host());
}

Result<Address> localAddress(int fd) {
  sockaddr_storage storage{};
  socklen_t length = sizeof storage;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&storage), &length) != 0)
    return systemFailure("getsockname", errno);
  return Address(reinterpret_cast<const sockaddr*>(&storage), length);
}

Result<Address> peerAddress(int fd) {
  sockaddr_storage storage{};
  socklen_t length = sizeof storage;
  if (::getpeername(fd, reinterpret_cast<sockaddr*>(&storage), &length) != 0)
    return systemFailure("getpeername", errno);
  return Address(reinterpret_cast<const sockaddr*>(&storage), length);
}

void setNoDelay(int fd) {
  const int one = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
}

Result<UniqueFd> startConnect(const Address& address, const Address* from, const std::function<void(int fd)>& prepare) {
  UniqueFd fd(::socket(address.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) return systemFailure("socket", errno);
  setNoDelay(fd.get());
  if (from != nullptr) {
    // The kernel chooses the port at connect. Connections to different peers can then share a local port.
    const int one = 1;
    ::setsockopt(fd.get(), IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &one, sizeof one);
    if (::bind(fd.get(), from->data(), from->length()) != 0)
      return systemFailure("cannot connect from " + from->text(), errno);
  }
  if (prepare) prepare(fd.get());
  if (::connect(fd.get(), address.data(), address.length()) != 0 && errno != EINPROGRESS && errno != EINTR)
    return systemFailure("cannot connect to " + address.text(), errno);
  return fd;
}

Status connectResult(int fd, const Address& address) {
  int error = 0;
  socklen_t length = sizeof error;
  if (::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) != 0) error = errno;
  if (error != 0) return systemFailure("cannot connect to " + address.text(), error);
  return {};
}

Result<std::optional<UniqueFd>> acceptFrom(int listenFd) {
  UniqueFd fd(::accept4(listenFd, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (fd) {
    setNoDelay(fd.get());
    return std::optional<UniqueFd>(std::move(fd));
  }
  // Only a lack of resources is an error of the listener. Every other error concerns one connection that is gone.
  if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) return systemFailure("accept", errno);
  return std::optional<UniqueFd>();
}

namespace {

// Selects interfaces by name, in the grammar of NCCL_SOCKET_IFNAME.
class NameFilter {
 public:
  explicit NameFilter(std::string_view text) {
    exclude_ = !text.empty() && text.front() == '^';
    if (exclude_) text.remove_prefix(1);
    exact_ = !text.empty() && text.front() == '=';
    if (exact_) text.remove_prefix(1);
    while (!text.empty()) {
      const size_t comma = text.find(',');
      if (comma != 0) names_.emplace_back(text.substr(0, comma));
      text = comma == std::string_view::npos ? std::string_view() : text.substr(comma + 1);
    }
  }
  bool selects(std::string_view name) const {
    const bool named = std::any_of(names_.begin(), names_.end(), [&](const std::string& each) {
      return exact_ ? name == each : name.substr(0, each.size()) == each;
    });
    return named != exclude_;
  }

 private:
  bool exclude_ = false, exact_ = false;
  std::vector<std::string> names_;
};

std::vector<Interface> addressesUp() {
  std::vector<Interface> found;
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return found;
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, ::freeifaddrs);
  for (const ifaddrs* i = list; i != nullptr; i = i->ifa_next) {
    if (i->ifa_addr == nullptr || (i->ifa_flags & IFF_UP) == 0) continue;
    const int family = i->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    const Address address(i->ifa_addr, family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
    found.push_back({i->ifa_name, address});
  }
  return found;
}

// Returns each interface once, with its first address.
std::vector<Interface> interfacesUp(const std::vector<Interface>& addresses) {
  std::vector<Interface> found;
  for (const Interface& each : addresses) {
    const bool again = std::any_of(found.begin(), found.end(), [&](const Interface& f) { return f.name == each.name; });
    if (!again) found.push_back(each);
  }
  return found;
}

std::vector<Interface> only(const std::vector<Interface>& all, const NameFilter& filter) {
  std::vector<Interface> chosen;
  std::copy_if(all.begin(), all.end(), std::back_inserter(chosen),
               [&](const Interface& i) { return filter.selects(i.name); });
  return chosen;
}

}  // namespace

Result<std::vector<Interface>> selectInterfaces(const std::string& filter) {
  const std::vector<Interface> addresses = addressesUp();
  const std::vector<Interface> all = interfacesUp(addresses);
  for (const Interface& each : addresses)
    if (filter == "=" + each.address.host()) return std::vector<Interface>{each};
  if (!filter.empty()) {
    std::vector<Interface> chosen = only(all, NameFilter(filter));
    if (!chosen.empty()) return chosen;
    std::string names;
    for (const Interface& i : all) names += " " + i.name;
    return failure(Code::kInvalidArgument,
                   "BPS_SOCKET_IFNAME or NCCL_SOCKET_IFNAME: \"{}\" selects no interface that is up (available:{})",
                   filter, names);
  }
  std::vector<Interface> chosen = only(all, NameFilter("^lo,docker,virbr"));
  if (chosen.empty()) chosen = only(all, NameFilter("^docker,virbr"));
  if (chosen.empty()) chosen = all;
  if (chosen.empty()) return Status(Code::kSystem, "no network interface is up");
  return chosen;
}

}  // namespace bps
