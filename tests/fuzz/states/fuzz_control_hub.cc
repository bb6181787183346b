// Fuzzes the hub with two ranks and a server that send frames in any order. The hub must report a failure only once,
// and the report must name the peer that caused the failure.
#include "src/control/hub/hub.h"
#include "src/control/keys/crypto.h"
#include "tests/fuzz/states/peers.h"

namespace {

using namespace bps;
using namespace bps::fuzz;

constexpr uint32_t kRanks = 3;

class Scene {
 public:
  Scene(const Address& where, int serverListener) : listener_(serverListener) {
    HubArgs args;
    args.id.kind = UniqueId::Kind::kHub;
    args.id.address = where_ = where;
    args.credentials = credentials();
    args.join = joinOf(0);
    args.settings = {1 << 20, 0, 0, kTimeoutMs, 0};
    args.servers.credentials = credentials();
    const Address server = std::move(localAddress(serverListener)).value();
    args.servers.targets = {{server.text(), {"127.0.0.1", server.port()}}};
    Result<std::unique_ptr<Hub>> made = Hub::create(std::move(args), told_);
    if (made.ok()) hub_ = std::move(made).value();
  }
  bool made() const { return hub_ != nullptr; }

  void move(Input& in) {
    const uint32_t who = in.number(kRanks);
    culprit_.clear();
    switch (in.number(9)) {
      case 0:
        if (who > 0) peers_[who] = connectPeer(where_, Purpose::kJoin, [this] { step(); });
        if (who > 0) joined_[who] = false;
        break;
      case 1:
        if (who > 0) join(who, in);
        break;
      case 2:
        send(who, static_cast<MessageType>(in.number(32)), in.blob());
        break;
      case 3: {
        const ControlOpInput part = randomOpInput(in, numbers_[who]);
        ++numbers_[who][static_cast<size_t>(part.kind)];
        send(who, MessageType::kControlOpInput, encode(part));
        break;
      }
      case 4:
        send(who, MessageType::kSuspect, encode(Suspect{in.any(), "it broke"}));
        break;
      case 5:
        if (peers_[0] == nullptr) peers_[0] = acceptPeer(listener_, Purpose::kServer, 0, [this] { step(); });
        else if (in.number(2) == 0) send(0, MessageType::kOffer, encode(Offer{}));
        else send(0, MessageType::kJobOpened, encode(JobOpened{in.number(3)}));
        break;
      case 6:
        if (told_.roster) hub_->startOp(static_cast<ControlOp>(in.number(kControlOps)), in.blobs(), Deadline::never());
        break;
      case 7:
        peers_[who].reset();
        break;
      default:
        if (told_.roster && in.number(8) == 0 && !std::exchange(left_, true)) hub_->leave();
        else if (in.number(8) == 0) hub_->report({Code::kInternal, "a fault of its own"});
    }
    for (int i = 0; i < 3; ++i) step();
    // If the hub failed in this step, it reports the failure to its own rank later. The report must name the peer that
    // sent the last frame.
    if (!blamed_ && !hub_->isFlushed()) blamed_ = culprit_;
    const std::string& why = told_.failure;
    if (why.find("broke the protocol") != std::string::npos && blamed_)
      require(why.find(*blamed_) != std::string::npos);
  }

 private:
  static Join joinOf(uint32_t rank) {
    Join join;
    join.rank = rank;
    join.nRanks = kRanks;
    join.hostId = join.hostName = "h" + std::to_string(rank);
    return join;
  }
  void join(uint32_t who, Input& in) {
    Join join = joinOf(who);
    if (const uint8_t odd = in.byte(); odd >= 250) join.rank = in.any();
    else if (odd >= 240) join.nRanks = in.any();
    else if (odd >= 200) join.hostId = "h0";
    joined_[who] = join.rank == who;
    send(who, MessageType::kJoin, encode(join));
  }
  void send(uint32_t who, MessageType type, const Blob& payload) {
    if (peers_[who] == nullptr) return;
    if (told_.roster && told_.failure.empty() && joined_[who]) culprit_ = "rank " + std::to_string(who) + " (";
    if (who == 0) culprit_ = "server";
    if (type == MessageType::kFailure || type == MessageType::kSuspect) culprit_.clear();
    peers_[who]->queue(type, payload);
    flush(*peers_[who]);
  }
  void step() { stepOnce(*hub_); }

  CheckedEvents told_;
  Address where_;
  int listener_;
  std::unique_ptr<Hub> hub_;
  std::unique_ptr<ControlSocket> peers_[kRanks];  // index 0 is the server
  bool joined_[kRanks] = {};
  std::array<uint32_t, kControlOps> numbers_[kRanks] = {};
  bool left_ = false;
  std::string culprit_;                // the peer that sent the last frame; empty for a failure report
  std::optional<std::string> blamed_;  // value of culprit_ when the hub failed
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 2000 || !cryptoInit().ok()) return 0;
  static const Address where = freeAddress();
  const UniqueFd server = std::move(listenOn(loopback())).value();
  Scene scene(where, server.get());
  if (!scene.made()) return 0;
  for (Input in(data, size); !in.empty();) scene.move(in);
  return 0;
}
