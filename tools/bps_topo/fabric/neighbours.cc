#include "tools/bps_topo/fabric/neighbours.h"

#include <linux/neighbour.h>
#include <net/if.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <thread>

#include "src/base/format.h"
#include "src/base/io/fd.h"
#include "src/base/io/socket.h"
#include "tools/bps_topo/fabric/neighbour_table.h"

namespace bps {
namespace {

using Clock = Deadline::Clock;

constexpr uint16_t kDiscardPort = 9;
constexpr std::chrono::milliseconds kPause(100);
constexpr std::chrono::seconds kBetweenProbes(1);
// For entries that an administrator has made permanent, so that the kernel does not ask.
constexpr std::chrono::seconds kConnectTime(3);

// Sends an empty datagram to each candidate, from the address of the interface.
Status sendDatagrams(const Interface& own, const std::vector<Address>& addresses) {
  const UniqueFd fd(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return systemFailure(own.name, errno);
  Address from = own.address;
  from.setPort(0);
  if (::bind(fd.get(), from.data(), from.length()) != 0)
    return systemFailure(fmt::format("{}: {}", own.name, own.address.host()), errno);
  for (const Address& to : addresses) {
    const bool sent = ::sendto(fd.get(), nullptr, 0, MSG_NOSIGNAL, to.data(), to.length()) >= 0;
    // If the queue is full, the kernel resolves the address nevertheless. An unreachable host is one that is known to
    // be silent.
    if (!sent && errno != EAGAIN && errno != ENOBUFS && errno != EHOSTUNREACH && errno != ECONNREFUSED)
      return systemFailure(fmt::format("{}: a datagram to {}", own.name, to.host()), errno);
  }
  return {};
}

// True if the other machine has accepted or refused the connection.
bool replied(int fd) {
  pollfd one{fd, POLLOUT, 0};
  if (::poll(&one, 1, 0) != 1) return false;
  int error = 0;
  socklen_t length = sizeof(error);
  ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length);
  return error == 0 || error == ECONNREFUSED;
}

// The candidates of one interface, and what is known of them.
class InterfaceProbe {
 public:
  explicit InterfaceProbe(const Interface& own) : own_(own), start_(Clock::now()) {
    for (const Address& each : candidates(own)) candidates_.push_back({each, {}, Verdict::kUndecided});
  }

  // Makes the kernel resolve the addresses that are undecided.
  Status send() const { return sendDatagrams(own_, having(Verdict::kUndecided)); }
  std::vector<Address> answers() const { return having(Verdict::kAnswers); }

  // Reads the table. Returns whether a candidate is undecided.
  Result<bool> update() {
    const auto table = BPS_TRY(readNeighbourTable(::if_nametoindex(own_.name.c_str())));
    bool undecided = false;
    for (Candidate& each : candidates_) {
      const auto entry = table.find(ipv4Bytes(each.ip));
      if (each.verdict != Verdict::kUndecided) continue;
      each.verdict = entry == table.end() ? Verdict::kSilent : judge(each, entry->second);
      undecided = undecided || each.verdict == Verdict::kUndecided;
    }
    return undecided;
  }

 private:
  enum class Verdict { kUndecided, kAnswers, kSilent };
  struct Candidate {
    Address ip;
    UniqueFd connection;
    Verdict verdict;
  };

  std::vector<Address> having(Verdict verdict) const {
    std::vector<Address> found;
    for (const Candidate& each : candidates_)
      if (each.verdict == verdict) found.push_back(each.ip);
    return found;
  }

  Verdict judge(Candidate& candidate, const NeighbourEntry& entry) const {
    constexpr uint16_t kKnown = NUD_REACHABLE | NUD_STALE, kAsked = NUD_DELAY | NUD_PROBE;
    const Clock::duration elapsed = Clock::now() - start_;
    if ((entry.state & NUD_INCOMPLETE) != 0) return Verdict::kUndecided;
    if ((entry.state & (kKnown | kAsked | NUD_PERMANENT)) == 0) return Verdict::kSilent;
    if ((entry.state & kKnown) != 0 && entry.sinceAnswer < elapsed) return Verdict::kAnswers;
    connect(candidate);
    if (candidate.connection && replied(candidate.connection.get())) return Verdict::kAnswers;
    return (entry.state & NUD_PERMANENT) != 0 && elapsed > kConnectTime ? Verdict::kSilent : Verdict::kUndecided;
  }

  // Starts a connection, if there is none. Without one, the table decides.
  void connect(Candidate& candidate) const {
    if (candidate.connection) return;
    Address from = own_.address;
    from.setPort(0);
    auto connection = startConnect(candidate.ip, &from);
    if (connection.ok()) candidate.connection = std::move(connection).value();
  }

  Interface own_;
  Clock::time_point start_;
  std::vector<Candidate> candidates_;
};

}  // namespace

std::vector<Address> candidates(const Interface& own) {
  constexpr unsigned kBits = 32, kLastBits = 8, kLeastHostBits = 2;
  const unsigned hostBits = kBits - std::min(own.prefixBits, kBits), free = std::min(hostBits, kLastBits);
  const Ipv4Bytes bytes = ipv4Bytes(own.address);
  const unsigned last = bytes.back(), first = last >> free << free, count = 1U << free;
  // The first and the last address of a network with more than two are not those of a machine.
  const bool hasBroadcast = hostBits >= kLeastHostBits;
  std::vector<Address> found;
  for (unsigned i = hasBroadcast ? 1 : 0; i < (hasBroadcast ? count - 1 : count); ++i) {
    Ipv4Bytes other = bytes;
    other.back() = static_cast<uint8_t>(first + i);
    if (other != bytes) found.push_back(Address::of(other, kDiscardPort));
  }
  return found;
}

Result<std::vector<std::vector<Address>>> askNeighbours(const std::vector<Interface>& interfaces, Deadline deadline) {
  std::vector<InterfaceProbe> probes;
  probes.reserve(interfaces.size());
  for (const Interface& each : interfaces) probes.emplace_back(each);
  for (bool undecided = true; undecided && !deadline.passed();) {
    undecided = false;
    for (InterfaceProbe& each : probes) BPS_TRY(each.send());
    for (const Clock::time_point next = Clock::now() + kBetweenProbes; Clock::now() < next;) {
      std::this_thread::sleep_for(kPause);
      undecided = false;
      for (InterfaceProbe& each : probes) undecided = BPS_TRY(each.update()) || undecided;
      if (!undecided) break;
    }
  }
  std::vector<std::vector<Address>> answers;
  answers.reserve(probes.size());
  for (const InterfaceProbe& each : probes) answers.push_back(each.answers());
  return answers;
}

}  // namespace bps
