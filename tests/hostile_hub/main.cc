// A hub that holds the servers' key and misbehaves. Usage: hostile_hub HOW HOST:PORT SECONDS. HOW is one of these
// words:
//
// flood sends heartbeats continuously huge opens jobs of very many machines one after the other, and leaves each job as
// soon as it is open descriptors opens jobs that each take as many descriptors as the server allows, and keeps these
// jobs open never opens a job of two machines that never connect to the server, and keeps this job open
#include <poll.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "src/base/env.h"
#include "src/base/format.h"
#include "src/base/io/host_lookup.h"
#include "src/control/keys/crypto.h"
#include "src/control/link/dialer.h"
#include "src/control/link/link.h"
#include "src/control/unique_id.h"
#include "src/wire/roster.h"

namespace bps {
namespace {

constexpr uint32_t kTimeoutMs = 10'000;

class Hub {
 public:
  Hub(Address server, const Key& key) : server_(server), key_(key) {}

  // Misbehaves as `how` says until the deadline. Connects again if the server closes the connection.
  Status run(const std::string& how, Deadline end) {
    while (!end.passed()) {
      Status ended = connect(end);
      if (!ended.ok()) return ended;
      if (how == "flood") ended = flood(end);
      else ended = hold(how, end);
      ++rounds_;
      ::poll(nullptr, 0, kPauseMs);
    }
    return {};
  }
  int rounds() const { return rounds_; }

 private:
  static constexpr int kPauseMs = 100;

  Status connect(Deadline end) {
    job_ = randomJobId();
    Dialer dialer({{server_}, {key_, true, kTimeoutMs}, Purpose::kServer, job_}, end);
    PollSet set;
    while (true) {
      set.clear();
      dialer.watch(set);
      BPS_TRY(set.wait());
      if (BPS_TRY(dialer.step(set)) == Progress::kDone) break;
    }
    peer_ = dialer.take();
    return {};
  }

  Status flood(Deadline end) {
    while (!end.passed()) {
      for (int i = 0; i < 1000; ++i) peer_.socket->queue(Heartbeat());
      while (peer_.socket->wantsWrite() && !end.passed()) {
        BPS_TRY(peer_.socket->flush());
        pollfd waiting{peer_.socket->fd(), POLLOUT, 0};
        ::poll(&waiting, 1, 100);
      }
    }
    return {};
  }

  Blob proposal(uint32_t machines) const {
    Roster roster;
    roster.jobId = job_;
    for (uint32_t m = 0; m < machines; ++m) {
      roster.ranks.push_back({fmt::format("h{}", m), "h", 1, m, 0});
      roster.machines.push_back({{m}, 0});
    }
    roster.servers.push_back({"server", 0});
    roster.settings = {4096, 0, 0, kTimeoutMs, 1};
    return encode(OpenJob{1, machines, encode(roster)});
  }

  // Opens one job, then leaves the job or keeps it as `how` says. A refusal by the server is not an error.
  Status hold(const std::string& how, Deadline end) {
    const uint32_t machines = how == "never" ? 2 : machines_;
    Link link(std::move(peer_), "the server", kTimeoutMs);
    PollSet set;
    while (!end.passed()) {
      set.clear();
      link.watch(set);
      set.wakeAt(end.at());
      BPS_TRY(set.wait());
      BPS_TRY(link.step(set));
      const std::optional<Frame> frame = BPS_TRY(link.next());
      if (!frame) continue;
      const MessageType type = frame->header.type;
      if (type == MessageType::kOffer) link.send(MessageType::kOpenJob, proposal(machines));
      if (type == MessageType::kRefusal) {
        machines_ = std::max(2U, machines_ / 2);  // finds the largest number of machines that the server accepts
        return {};
      }
      if (type == MessageType::kJobOpened && how == "huge") return {};
      if (type == MessageType::kJobOpened && how == "never") link.send(MessageType::kBegin);
      if (type == MessageType::kControlOpInput)
        link.send(ControlOpResult{ControlOp::kExchange, 0, BPS_TRY(decode<ControlOpInput>(frame->payload)).blobs});
    }
    return {};
  }

  Address server_;
  Key key_;
  uint64_t job_ = 0;
  Peer peer_;
  uint32_t machines_ = 16'000;
  int rounds_ = 0;
};

Status attack(char** argv) {
  BPS_TRY(cryptoInit());
  const Env env = BPS_TRY(processEnv());
  const Key key = BPS_TRY(serverKey(env));
  const HostPort where = BPS_TRY(parseHostPort(argv[2], 0));
  const double seconds = BPS_TRY(parseNumber(argv[3]));
  const Deadline end = Deadline::in(std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000)));
  Hub hub(BPS_TRY(resolve(where, end)).front(), key);
  BPS_TRY(hub.run(argv[1], end));
  std::printf("%s: %d connections\n", argv[1], hub.rounds());
  return {};
}

}  // namespace
}  // namespace bps

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: hostile_hub flood|huge|descriptors|never HOST:PORT SECONDS\n");
    return 2;
  }
  const bps::Status status = bps::attack(argv);
  if (status.ok()) return 0;
  std::fprintf(stderr, "hostile_hub %s: %s\n", argv[1], status.message());
  return 1;
}
