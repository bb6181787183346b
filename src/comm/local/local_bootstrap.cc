// Connects the ranks of one machine through a Unix socket in the abstract namespace, named after
// the job. Every rank sends its CUDA device and its doorbell to the leader (local rank 0). The
// leader then distributes the machine spec (machine_plan.h), the memory of the local ring and all
// doorbells. Only processes of the same user are accepted.
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <thread>

#include "src/base/format.h"
#include "src/base/io/fd_passing.h"
#include "src/base/log.h"
#include "src/comm/local/local_reducer.h"
#include "src/comm/local/machine/binding.h"

namespace bps {
namespace {

constexpr size_t kMaxFds = 250;   // the kernel passes at most 253 descriptors in one message
constexpr size_t kLeaderFds = 2;  // descriptors of the machine spec and of the ring, before the doorbells

struct SocketAddress {
  sockaddr_un address{};
  socklen_t length = 0;
};

SocketAddress socketAddressOf(uint64_t job, uint32_t machine) {
  SocketAddress name;
  name.address.sun_family = AF_UNIX;
  const std::string text = fmt::format("bps-{:016x}-{}", job, machine);
  std::memcpy(name.address.sun_path + 1, text.data(), text.size());  // the leading 0 means "abstract namespace"
  name.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
  return name;
}

// The message that carries the descriptors.
struct HelloMessage {
  uint32_t localRank = 0;
  std::array<char, 28> device{};  // PCI bus id with a terminating zero
};

Status sendHello(int socket, const HelloMessage& hello, const std::vector<int>& fds) {
  return sendFds(socket, {reinterpret_cast<const uint8_t*>(&hello), sizeof hello}, fds,
                 "passing descriptors to a local rank");
}

struct ReceivedMessage {
  HelloMessage helloMessage;
  std::vector<UniqueFd> fds;
};

Result<ReceivedMessage> receiveHello(int socket) {
  ReceivedMessage received;
  HelloMessage& hello = received.helloMessage;
  Result<FdMessage> result =
      receiveFds(socket, {reinterpret_cast<uint8_t*>(&hello), sizeof hello}, kMaxFds + kLeaderFds);
  FdMessage message = result.ok() ? std::move(result).value() : FdMessage();
  if (message.bytes == 0) return Status(Code::kRemote, "a local rank closed its connection during the local bootstrap");
  if (message.truncated || message.bytes != sizeof hello)
    return Status(Code::kRemote, "the local bootstrap received a malformed message");
  received.fds = std::move(message.fds);
  hello.device.back() = 0;
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

// The leader's side: collects the device and doorbell of every local rank, then distributes all of them.
class LeaderBootstrap {
 public:
  LeaderBootstrap(const LocalReducerSpec& spec, const Machine& machine, const SocketAddress& name)
      : spec_(spec),
        machine_(machine),
        followers_(machine.ranks.size()),
        bells_(followers_.size()),
        devices_(followers_.size()) {
    socket_ = unixSocket();
    const auto* address = reinterpret_cast<const sockaddr*>(&name.address);
    listening_ = socket_ && ::bind(socket_.get(), address, name.length) == 0 && ::listen(socket_.get(), 256) == 0;
  }

  // Returns the device of every local rank.
  Result<std::vector<std::string>> gatherDevices(Deadline deadline) {
    if (!listening_) return systemFailure("listening for the other ranks of this machine (local bootstrap)", errno);
    bells_[0] = UniqueFd(::dup(spec_.bell->fd()));
    devices_[0] = spec_.device;
    size_t missing = machine_.ranks.size() - 1;
    while (missing > 0) {
      if (spec_.failure->failed()) return spec_.failure->get();
      if (deadline.passed())
        return failure(Code::kRemote, "{} did not join the local bootstrap before the timeout", missingNames());
      waitForConnections(deadline.leftMs(100));
      acceptConnections();
      missing -= readHellos();
    }
    unidentified_.clear();
    return devices_;
  }

  Result<std::vector<Doorbell>> distribute(int machineSpec, const LocalRing& ring) {
    std::vector<int> fds{machineSpec, ring.fd()};
    for (const UniqueFd& bell : bells_) fds.push_back(bell.get());
    for (size_t local = 1; local < followers_.size(); ++local) BPS_TRY(sendHello(followers_[local].get(), {}, fds));
    std::vector<Doorbell> bells;
    for (UniqueFd& bell : bells_) bells.emplace_back(std::move(bell));
    return bells;
  }

 private:
  void waitForConnections(int ms) {
    std::vector<pollfd> polled{{socket_.get(), POLLIN, 0}};
    for (const UniqueFd& connection : unidentified_) polled.push_back({connection.get(), POLLIN, 0});
    [[maybe_unused]] const int ready = ::poll(polled.data(), polled.size(), ms);
  }
  void acceptConnections() {
    while (readable(socket_.get(), 0)) {
      UniqueFd peer(::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (!peer || !sameUser(peer.get())) return;
      if (unidentified_.size() >= kMaxFds)
        unidentified_.erase(unidentified_.begin());  // drop the oldest silent connection
      unidentified_.push_back(std::move(peer));
    }
  }
  // Reads hello messages and returns how many ranks were identified. Drops connections with invalid messages.
  size_t readHellos() {
    size_t identified = 0;
    std::erase_if(unidentified_, [&](UniqueFd& connection) {
      if (!readable(connection.get(), 0)) return false;
      if (readHello(connection)) ++identified;
      return true;
    });
    return identified;
  }
  bool readHello(UniqueFd& connection) {
    Result<ReceivedMessage> hello = receiveHello(connection.get());
    if (!hello.ok()) return false;
    ReceivedMessage got = std::move(hello).value();
    const uint32_t number = got.helloMessage.localRank;
    if (number == 0 || number >= followers_.size() || followers_[number] || got.fds.size() != 1) return false;
    bells_[number] = std::move(got.fds[0]);
    devices_[number] = got.helloMessage.device.data();
    followers_[number] = std::move(connection);
    return true;
  }
  std::string missingNames() const {
    std::string names;
    for (size_t local = 1; local < followers_.size(); ++local)
      if (!followers_[local]) names += (names.empty() ? "" : ", ") + spec_.roster->rankName(machine_.ranks[local]);
    return names;
  }

  const LocalReducerSpec& spec_;
  const Machine& machine_;
  UniqueFd socket_;
  bool listening_ = false;
  std::vector<UniqueFd> unidentified_;  // connections whose rank is not known yet
  std::vector<UniqueFd> followers_, bells_;
  std::vector<std::string> devices_;
};

Result<ReceivedMessage> joinLeader(const LocalReducerSpec& spec, uint32_t localRank, const SocketAddress& name,
                                   Deadline deadline) {
  UniqueFd socket = unixSocket();
  if (!socket) return systemFailure("socket", errno);
  while (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&name.address), name.length) != 0) {
    if (errno != ECONNREFUSED && errno != ENOENT && errno != EINTR && errno != EAGAIN)
      return systemFailure("connecting to the leader of this machine", errno);
    if (spec.failure->failed()) return spec.failure->get();
    if (deadline.passed())
      return Status(Code::kRemote, "the leader of this machine did not start the local bootstrap before the timeout");
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  if (!sameUser(socket.get()))
    return Status(Code::kRemote, "the socket of the local bootstrap belongs to another user");
  HelloMessage helloMessage{localRank, {}};
  spec.device.copy(helloMessage.device.data(), helloMessage.device.size() - 1);
  BPS_TRY(sendHello(socket.get(), helloMessage, {spec.bell->fd()}));
  while (!readable(socket.get(), deadline.leftMs(100))) {
    if (spec.failure->failed()) return spec.failure->get();
    if (deadline.passed()) return Status(Code::kRemote, "the leader of this machine did not answer before the timeout");
  }
  return receiveHello(socket.get());
}

LocalRingShape shapeFor(const MachinePlan& plan, LocalRingShape shape) {
  shape.stages = static_cast<uint32_t>(plan.program.stages());
  shape.counters = static_cast<uint32_t>(LinkByteCounters::size(plan.topology));
  return shape;
}

// Binds the memory of the ring to NUMA nodes. Call it before any rank accesses this memory.
void bindRingMemory(const MachinePlan& plan, const LocalRing& ring) {
  if (!canBindToNuma(plan.topology, readCpuAvailability().online)) return;
  for (const NumaRange& place : numaRanges(plan.topology, plan.program.plan(), ring.shape().slotBytes))
    for (uint64_t slot = 0; slot < ring.shape().slots; ++slot) {
      const Status placed = bindMemory(ring.area(slot, place.area) + place.begin, place.end - place.begin, place.node);
      if (!placed.ok())
        return logInfo(Subsystem::kTopo, "{}; its pages will be on the node that first touches them", placed.message());
    }
}

Result<std::unique_ptr<LocalReducer>> bootstrapAsLeader(LocalReducerSpec spec, const Machine& machine,
                                                        const SocketAddress& name, Deadline deadline) {
  MachineSpec machineSpec = BPS_TRY(makeMachineSpec(*spec.env, machine.ranks.size(), spec.network));
  // Detect invalid settings before any rank joins. If the settings were checked later, the other
  // ranks would see invalid settings only as a closed connection.
  BPS_TRY(MachinePlan::make(machineSpec));
  LeaderBootstrap leaderBootstrap(spec, machine, name);
  machineSpec.devices = BPS_TRY(leaderBootstrap.gatherDevices(deadline));
  auto plan = BPS_TRY(MachinePlan::make(machineSpec));
  const UniqueFd file = BPS_TRY(writeSpecFile(machineSpec));
  LocalRing ring = BPS_TRY(LocalRing::create(shapeFor(*plan, spec.shape)));
  bindRingMemory(*plan, ring);
  std::vector<Doorbell> bells = BPS_TRY(leaderBootstrap.distribute(file.get(), ring));
  return std::make_unique<LocalReducer>(std::move(spec), std::move(plan), std::move(ring), std::move(bells));
}

Result<std::unique_ptr<LocalReducer>> bootstrapAsFollower(LocalReducerSpec spec, const Machine& machine,
                                                          ReceivedMessage reply) {
  if (reply.fds.size() != machine.ranks.size() + kLeaderFds)
    return Status(Code::kRemote, "the local leader sent too few or too many descriptors");
  const MachineSpec machineSpec = BPS_TRY(readSpecFile(reply.fds[0]));
  if (machineSpec.devices.size() != machine.ranks.size())
    return failure(Code::kRemote, "the local leader's machine spec has {} ranks, expected {}",
                   machineSpec.devices.size(), machine.ranks.size());
  auto plan = BPS_TRY(MachinePlan::make(machineSpec));
  LocalRing ring = BPS_TRY(LocalRing::attach(shapeFor(*plan, spec.shape), std::move(reply.fds[1])));
  std::vector<Doorbell> bells;
  for (size_t i = kLeaderFds; i < reply.fds.size(); ++i) bells.emplace_back(std::move(reply.fds[i]));
  return std::make_unique<LocalReducer>(std::move(spec), std::move(plan), std::move(ring), std::move(bells));
}

}  // namespace

Result<std::unique_ptr<LocalReducer>> LocalReducer::bootstrap(LocalReducerSpec spec, Deadline deadline) {
  const RankEntry& self = spec.roster->ranks[spec.rank];
  const Machine& machine = spec.roster->machines[self.machine];
  if (machine.ranks.size() >= kMaxFds)
    return failure(Code::kInvalidUsage, "{} ranks on one machine, expected at most {}", machine.ranks.size(),
                   kMaxFds - 1);
  const SocketAddress name = socketAddressOf(spec.roster->jobId, self.machine);
  if (self.localRank == 0) return bootstrapAsLeader(std::move(spec), machine, name, deadline);
  ReceivedMessage reply = BPS_TRY(joinLeader(spec, self.localRank, name, deadline));
  return bootstrapAsFollower(std::move(spec), machine, std::move(reply));
}

}  // namespace bps
