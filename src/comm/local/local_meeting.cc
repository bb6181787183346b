// How the ranks of one machine find each other: a Unix socket in the abstract name space, named after the job. Every
// rank says which CUDA device it has and brings its doorbell; the leader then hands out the brief of the machine
// (machine_plan.h), the ring's memory and all doorbells.
// Only processes of the same user are let in.
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <thread>

#include "src/base/format.h"
#include "src/base/log.h"
#include "src/comm/local/binding.h"
#include "src/comm/local/local_group.h"

namespace bps {
namespace {

constexpr size_t kMostFds = 250;  // the kernel passes at most 253 at once
constexpr size_t kGifts = 2;      // the brief and the ring; then come the doorbells
constexpr off_t kMostBriefBytes = 64 << 20;

struct Name {
  sockaddr_un address{};
  socklen_t length = 0;
};

Name nameOf(uint64_t job, uint32_t machine) {
  Name name;
  name.address.sun_family = AF_UNIX;
  const std::string text = fmt::format("bps-{:016x}-{}", job, machine);
  std::memcpy(name.address.sun_path + 1, text.data(), text.size());  // a leading zero byte: no file
  name.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
  return name;
}

// What travels with the descriptors.
struct Words {
  uint32_t localRank = 0;
  std::array<char, 28> device{};  // a place on the bus, with a zero at the end
};

Status sendFds(int socket, Words words, const std::vector<int>& fds) {
  iovec data{&words, sizeof words};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * (kMostFds + kGifts))> control{};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = CMSG_SPACE(sizeof(int) * fds.size());
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int) * fds.size());
  std::memcpy(CMSG_DATA(header), fds.data(), sizeof(int) * fds.size());
  if (::sendmsg(socket, &message, MSG_NOSIGNAL) != static_cast<ssize_t>(sizeof words))
    return systemFailure("passing descriptors to a local rank", errno);
  return {};
}

struct Received {
  Words words;
  std::vector<UniqueFd> fds;
};

Result<Received> receiveFds(int socket) {
  Received received;
  iovec data{&received.words, sizeof received.words};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * (kMostFds + kGifts))> control{};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  const ssize_t got = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  for (cmsghdr* h = CMSG_FIRSTHDR(&message); got >= 0 && h != nullptr; h = CMSG_NXTHDR(&message, h)) {
    if (h->cmsg_level != SOL_SOCKET || h->cmsg_type != SCM_RIGHTS) continue;
    for (size_t at = 0; at + sizeof(int) <= h->cmsg_len - CMSG_LEN(0); at += sizeof(int)) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(h) + at, sizeof fd);
      received.fds.emplace_back(fd);
    }
  }
  if (got <= 0) return Status(Code::kRemote, "a local rank hung up");
  // Of a longer message the kernel gives the beginning.
  const bool whole = (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) == 0;
  if (!whole || got != static_cast<ssize_t>(sizeof received.words))
    return Status(Code::kRemote, "a message in the local meeting that no rank sends");
  received.words.device.back() = 0;
  return received;
}

bool sameUser(int socket) {
  ucred peer{};
  socklen_t length = sizeof peer;
  return ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 && peer.uid == ::geteuid();
}

bool readable(int fd, int ms) {
  pollfd poll{fd, POLLIN, 0};
  return ::poll(&poll, 1, ms) > 0;
}

UniqueFd unixSocket() { return UniqueFd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)); }

// The leader's side: collects what every member brings, then gives all to all.
class Host {
 public:
  Host(const LocalGroupSpec& spec, const Machine& machine, const Name& name)
      : spec_(spec),
        machine_(machine),
        members_(machine.ranks.size()),
        bells_(members_.size()),
        devices_(members_.size()) {
    socket_ = unixSocket();
    const auto* address = reinterpret_cast<const sockaddr*>(&name.address);
    listening_ = socket_ && ::bind(socket_.get(), address, name.length) == 0 && ::listen(socket_.get(), 256) == 0;
  }

  // Every local rank's device.
  Result<std::vector<std::string>> gather(Deadline deadline) {
    if (!listening_) return systemFailure("listening for the other ranks of this machine", errno);
    bells_[0] = UniqueFd(::dup(spec_.bell->fd()));
    devices_[0] = spec_.device;
    size_t missing = machine_.ranks.size() - 1;
    while (missing > 0) {
      if (spec_.failure->failed()) return spec_.failure->get();
      if (deadline.passed()) return failure(Code::kRemote, "{} did not come to the local meeting", missingNames());
      waitForVisitors(deadline.leftMs(100));
      acceptVisitors();
      missing -= takeArrivals();
    }
    visitors_.clear();
    return devices_;
  }

  Result<std::vector<Doorbell>> handOut(int brief, const LocalRing& ring) {
    std::vector<int> fds{brief, ring.fd()};
    for (const UniqueFd& bell : bells_) fds.push_back(bell.get());
    for (size_t local = 1; local < members_.size(); ++local) BPS_TRY(sendFds(members_[local].get(), {}, fds));
    std::vector<Doorbell> bells;
    for (UniqueFd& bell : bells_) bells.emplace_back(std::move(bell));
    return bells;
  }

 private:
  void waitForVisitors(int ms) {
    std::vector<pollfd> polled{{socket_.get(), POLLIN, 0}};
    for (const UniqueFd& visitor : visitors_) polled.push_back({visitor.get(), POLLIN, 0});
    [[maybe_unused]] const int ready = ::poll(polled.data(), polled.size(), ms);
  }
  void acceptVisitors() {
    while (readable(socket_.get(), 0)) {
      UniqueFd peer(::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (!peer || !sameUser(peer.get())) return;
      if (visitors_.size() >= kMostFds) visitors_.erase(visitors_.begin());  // it has been silent longest
      visitors_.push_back(std::move(peer));
    }
  }
  // Of those who have come, how many have said who they are.
  size_t takeArrivals() {
    size_t taken = 0;
    std::erase_if(visitors_, [&](UniqueFd& visitor) {
      if (!readable(visitor.get(), 0)) return false;
      if (take(visitor)) ++taken;
      return true;
    });
    return taken;
  }
  bool take(UniqueFd& visitor) {
    Result<Received> hello = receiveFds(visitor.get());
    if (!hello.ok()) return false;
    Received got = std::move(hello).value();
    const uint32_t number = got.words.localRank;
    if (number == 0 || number >= members_.size() || members_[number] || got.fds.size() != 1) return false;
    bells_[number] = std::move(got.fds[0]);
    devices_[number] = got.words.device.data();
    members_[number] = std::move(visitor);
    return true;
  }
  std::string missingNames() const {
    std::string names;
    for (size_t local = 1; local < members_.size(); ++local)
      if (!members_[local]) names += (names.empty() ? "" : ", ") + spec_.roster->rankName(machine_.ranks[local]);
    return names;
  }

  const LocalGroupSpec& spec_;
  const Machine& machine_;
  UniqueFd socket_;
  bool listening_ = false;
  std::vector<UniqueFd> visitors_;  // who have not said who they are
  std::vector<UniqueFd> members_, bells_;
  std::vector<std::string> devices_;
};

Result<Received> visit(const LocalGroupSpec& spec, uint32_t localRank, const Name& name, Deadline deadline) {
  UniqueFd socket = unixSocket();
  if (!socket) return systemFailure("socket", errno);
  while (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&name.address), name.length) != 0) {
    if (errno != ECONNREFUSED && errno != ENOENT && errno != EINTR && errno != EAGAIN)
      return systemFailure("meeting the leader of this machine", errno);
    if (spec.failure->failed()) return spec.failure->get();
    if (deadline.passed()) return Status(Code::kRemote, "the leader of this machine did not open the local meeting");
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  if (!sameUser(socket.get())) return Status(Code::kRemote, "the local meeting is held by another user");
  Words words{localRank, {}};
  spec.device.copy(words.device.data(), words.device.size() - 1);
  BPS_TRY(sendFds(socket.get(), words, {spec.bell->fd()}));
  while (!readable(socket.get(), deadline.leftMs(100))) {
    if (spec.failure->failed()) return spec.failure->get();
    if (deadline.passed())
      return Status(Code::kRemote, "the leader of this machine did not answer in the local meeting");
  }
  return receiveFds(socket.get());
}

Result<UniqueFd> fileOf(const Blob& bytes) {
  UniqueFd file(::memfd_create("bps-machine", MFD_CLOEXEC));
  if (!file || ::pwrite(file.get(), bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    return systemFailure("memory for the brief of the local ranks", errno);
  return file;
}

Result<Blob> contentOf(const UniqueFd& file) {
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) return systemFailure("fstat of the local leader's brief", errno);
  if (status.st_size > kMostBriefBytes)
    return failure(Code::kRemote, "the local leader's brief has {} bytes, more than {}", status.st_size,
                   kMostBriefBytes);
  Blob bytes(static_cast<size_t>(status.st_size));
  if (::pread(file.get(), bytes.data(), bytes.size(), 0) != status.st_size)
    return systemFailure("reading the local leader's brief", errno);
  return bytes;
}

LocalRingShape shapeFor(const MachinePlan& plan, LocalRingShape shape) {
  shape.stages = static_cast<uint32_t>(plan.program.stages());
  shape.counters = static_cast<uint32_t>(LinkMeter::size(plan.topology));
  return shape;
}

// Before anybody touches it.
void placeRing(const MachinePlan& plan, const LocalRing& ring) {
  if (!hasPlaces(plan.topology, cpusHere().online)) return;
  for (const MemoryPlace& place : memoryPlaces(plan.topology, plan.program.plan(), ring.shape().slotBytes))
    for (uint64_t slot = 0; slot < ring.shape().slots; ++slot) {
      const Status placed = placeMemory(ring.area(slot, place.area) + place.begin, place.end - place.begin, place.node);
      if (!placed.ok()) return logInfo(Subsystem::kTopo, "{}; it lies where it is first used", placed.message());
    }
}

Result<std::unique_ptr<LocalGroup>> lead(LocalGroupSpec spec, const Machine& machine, const Name& name,
                                         Deadline deadline) {
  MachineBrief brief = BPS_TRY(briefOf(*spec.env, machine.ranks.size(), spec.network));
  // What is wrong with the settings is found before anybody has come: later it would look like a rank that hung up.
  BPS_TRY(MachinePlan::make(brief));
  Host host(spec, machine, name);
  brief.devices = BPS_TRY(host.gather(deadline));
  auto plan = BPS_TRY(MachinePlan::make(brief));
  const UniqueFd file = BPS_TRY(fileOf(encode(brief)));
  LocalRing ring = BPS_TRY(LocalRing::create(shapeFor(*plan, spec.shape)));
  placeRing(*plan, ring);
  std::vector<Doorbell> bells = BPS_TRY(host.handOut(file.get(), ring));
  return std::make_unique<LocalGroup>(std::move(spec), std::move(plan), std::move(ring), std::move(bells));
}

Result<std::unique_ptr<LocalGroup>> follow(LocalGroupSpec spec, const Machine& machine, Received gift) {
  if (gift.fds.size() != machine.ranks.size() + kGifts)
    return Status(Code::kRemote, "the local leader's gift is incomplete");
  const Blob content = BPS_TRY(contentOf(gift.fds[0]));
  const MachineBrief brief = BPS_TRY(decodeMachineBrief(content));
  if (brief.devices.size() != machine.ranks.size())
    return failure(Code::kRemote, "the local leader speaks of {} ranks, there are {}", brief.devices.size(),
                   machine.ranks.size());
  auto plan = BPS_TRY(MachinePlan::make(brief));
  LocalRing ring = BPS_TRY(LocalRing::attach(shapeFor(*plan, spec.shape), std::move(gift.fds[1])));
  std::vector<Doorbell> bells;
  for (size_t i = kGifts; i < gift.fds.size(); ++i) bells.emplace_back(std::move(gift.fds[i]));
  return std::make_unique<LocalGroup>(std::move(spec), std::move(plan), std::move(ring), std::move(bells));
}

}  // namespace

Result<std::unique_ptr<LocalGroup>> LocalGroup::meet(LocalGroupSpec spec, Deadline deadline) {
  const RankEntry& self = spec.roster->ranks[spec.rank];
  const Machine& machine = spec.roster->machines[self.machine];
  if (machine.ranks.size() >= kMostFds)
    return failure(Code::kInvalidUsage, "{} ranks on one machine, at most {} can meet", machine.ranks.size(), kMostFds);
  const Name name = nameOf(spec.roster->jobId, self.machine);
  if (self.localRank == 0) return lead(std::move(spec), machine, name, deadline);
  Received gift = BPS_TRY(visit(spec, self.localRank, name, deadline));
  return follow(std::move(spec), machine, std::move(gift));
}

}  // namespace bps
