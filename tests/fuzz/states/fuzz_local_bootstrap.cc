// Fuzzes the bootstrap, in which the ranks of one machine find each other, with a hostile process of the same user. If
// the hostile process acts as the leader, the rank must get an error or a valid result, and must not crash. If the
// hostile process connects as a client, the bootstrap of the two ranks must succeed.
#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "src/base/format.h"
#include "src/comm/local/local_reducer.h"
#include "src/comm/local/machine/machine_plan.h"
#include "tests/fuzz/states/input.h"
#include "tests/fuzz/states/kernels.h"

namespace {

using namespace bps;
using fuzz::Input;
using fuzz::require;

constexpr std::chrono::seconds kPatience{60};
constexpr size_t kMostFds = 8;

// Two ranks of one machine, in a job whose number no other input uses.
struct Job {
  Job() {
    static std::atomic<uint64_t> next{0};
    roster.jobId = (static_cast<uint64_t>(::getpid()) << 32) + next++;
    roster.ranks = {{"a", "hostA", 1, 0, 0}, {"a", "hostA", 2, 0, 1}};
    roster.machines = {{{0, 1}, 0}};
    env.topoFile = "cpu";
  }
  Result<std::unique_ptr<LocalReducer>> bootstrap(uint32_t rank) const {
    LocalReducerSpec spec;
    spec.roster = &roster;
    spec.rank = rank;
    spec.env = &env;
    spec.shape = {2, 4, 4096, 0, 0};
    spec.bell = std::make_shared<Doorbell>(std::move(Doorbell::create()).value());
    spec.failure = &failure;
    return LocalReducer::bootstrap(std::move(spec), Deadline::in(kPatience));
  }
  sockaddr_un name(socklen_t& length) const {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const std::string text = fmt::format("bps-{:016x}-0", roster.jobId);
    std::memcpy(address.sun_path + 1, text.data(), text.size());
    length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
    return address;
  }
  Roster roster;
  Env env;
  FirstError failure;
};

UniqueFd fileWith(std::span<const uint8_t> content, size_t size) {
  UniqueFd file(::memfd_create("fuzz", MFD_CLOEXEC));
  require(file && ::ftruncate(file.get(), static_cast<off_t>(size)) == 0);
  require(::pwrite(file.get(), content.data(), std::min(content.size(), size), 0) >= 0);
  return file;
}

void send(int socket, std::span<const uint8_t> bytes, const std::vector<UniqueFd>& fds) {
  iovec data{const_cast<uint8_t*>(bytes.data()), bytes.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * kMostFds)> control{};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  if (!fds.empty()) {
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(sizeof(int) * fds.size());
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int) * fds.size());
    for (size_t i = 0; i < fds.size(); ++i) {
      const int fd = fds[i].get();
      std::memcpy(CMSG_DATA(header) + i * sizeof fd, &fd, sizeof fd);
    }
  }
  [[maybe_unused]] const ssize_t sent = ::sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

// Returns the first message that a process sends: the valid message of rank `localRank`, or a message with random
// changes.
std::vector<uint8_t> firstMessage(Input& input, uint32_t localRank) {
  std::vector<uint8_t> all(32);
  std::memcpy(all.data(), &localRank, sizeof localRank);
  const uint8_t changes = input.byte() % 4;
  for (int i = 0; i < changes; ++i) all[input.byte() % 32] = input.byte();
  if (input.byte() % 8 == 0) all.resize(input.byte() % 64);
  return all;
}

UniqueFd anyFd(Input& input) {
  switch (input.byte() % 4) {
    case 0:
      return UniqueFd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    case 1:
      return UniqueFd(::open("/dev/null", O_RDWR | O_CLOEXEC));
    case 2:
      return UniqueFd(::open("/", O_RDONLY | O_CLOEXEC));
    default:
      return fileWith({}, size_t{input.byte()} << 8);
  }
}

// Runs the bootstrap of rank 1 with a leader that sends arbitrary data.
void falseLeader(Input input) {
  const Job job;
  socklen_t length = 0;
  const sockaddr_un address = job.name(length);
  const UniqueFd listener(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  require(::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), length) == 0);
  require(::listen(listener.get(), 4) == 0);
  std::thread rank([&] {
    Result<std::unique_ptr<LocalReducer>> met = job.bootstrap(1);
    if (!met.ok()) return;
    const std::unique_ptr<LocalReducer> group = std::move(met).value();
    for (int turn = 0; turn < 3; ++turn) [[maybe_unused]] const bool stepped = group->step().ok();
  });
  UniqueFd client;
  while (!client) {  // libFuzzer's timer may interrupt accept4()
    client = UniqueFd(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    require(client || errno == EINTR);
  }
  const std::vector<uint8_t> message = firstMessage(input, 0);
  const size_t bells = input.byte() % 4;
  const bool goodBrief = input.byte() % 2 == 0;
  const size_t ringBytes = (size_t{input.byte()} << 12) + input.byte();
  const bool odd = input.byte() % 4 == 0;
  Blob machineSpec(input.rest().begin(), input.rest().end());
  if (goodBrief) {
    MachineSpec good = std::move(makeMachineSpec(job.env, 2, 0)).value();
    good.devices.resize(2);
    machineSpec = encode(good);
  }
  std::vector<UniqueFd> fds;
  fds.push_back(odd ? anyFd(input) : fileWith(machineSpec, machineSpec.size()));
  fds.push_back(odd ? anyFd(input) : fileWith(input.rest(), ringBytes));
  for (size_t i = 0; i < bells; ++i) fds.push_back(anyFd(input));
  send(client.get(), message, fds);
  ::shutdown(client.get(), SHUT_RDWR);
  rank.join();
}

UniqueFd connectClient(const Job& job) {
  socklen_t length = 0;
  const sockaddr_un address = job.name(length);
  const Deadline deadline = Deadline::in(kPatience);
  while (true) {
    UniqueFd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), length) == 0) return socket;
    require(!deadline.passed());
    std::this_thread::yield();
  }
}

// Runs the bootstrap of a leader with clients that send arbitrary data. The only valid client connects last.
void invalidClients(Input input) {
  const Job job;
  bool led = false;
  std::thread leader([&] { led = job.bootstrap(0).ok(); });
  std::vector<UniqueFd> clients;
  const size_t count = input.byte() % 5;
  for (size_t i = 0; i < count; ++i) {
    clients.push_back(connectClient(job));
    if (input.byte() % 4 == 0) continue;  // this client sends nothing
    std::vector<uint8_t> message = firstMessage(input, input.byte() % 3);
    std::vector<UniqueFd> fds(input.byte() % 4);
    for (UniqueFd& fd : fds) fd = anyFd(input);
    // A message with one descriptor and local rank 1 would be the valid message of rank 1. So such a message gets local
    // rank 0.
    if (message.size() == 32 && fds.size() == 1) message[0] = 0, message[1] = message[2] = message[3] = 0;
    send(clients.back().get(), message, fds);
  }
  const UniqueFd right = connectClient(job);
  std::vector<uint8_t> message(32);
  message[0] = 1;
  std::vector<UniqueFd> bell;
  bell.emplace_back(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  send(right.get(), message, bell);
  leader.join();
  require(led);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const Input input(data + 1, size - 1);
  data[0] % 2 == 0 ? falseLeader(input) : invalidClients(input);
  return 0;
}
