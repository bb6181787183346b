// Fuzzes the rendezvous with clients that send frames in any order. Afterwards a valid client must get an answer,
// unless a fuzzed client has acted as rank 0.
#include "src/control/keys/crypto.h"
#include "src/control/rendezvous/rendezvous_state.h"
#include "tests/fuzz/states/peers.h"

namespace {

using namespace bps;
using namespace bps::fuzz;

constexpr size_t kClients = 4;

// Steps the rendezvous and returns the next frame that is not a heartbeat.
std::optional<Frame> answerOf(RendezvousState& rendezvous, ControlSocket& client) {
  for (int i = 0; i < 20; ++i) {
    stepOnce(rendezvous);
    Result<std::optional<Frame>> came = client.read();
    if (!came.ok()) return std::nullopt;
    std::optional<Frame> frame = std::move(came).value();
    if (frame && frame->header.type != MessageType::kHeartbeat) return frame;
  }
  return std::nullopt;
}

bool ask(RendezvousState& rendezvous, const Address& where, const RendezvousRequest& question) {
  const auto client = connectPeer(where, Purpose::kRendezvous, [&] { stepOnce(rendezvous); });
  require(client != nullptr);
  client->queue(question);
  flush(*client);
  const std::optional<Frame> frame = answerOf(rendezvous, *client);
  return frame && frame->header.type == MessageType::kRendezvousReply;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 2000 || !cryptoInit().ok()) return 0;
  static const Address where = freeAddress();
  Result<AuthListener> listener = AuthListener::create(where, credentials(), Purpose::kRendezvous, kJob);
  if (!listener.ok()) return 0;
  RendezvousState rendezvous(std::move(listener).value(), kTimeoutMs);
  std::unique_ptr<ControlSocket> clients[kClients];
  bool hubCame = false;
  for (Input in(data, size); !in.empty();) {
    auto& client = clients[in.number(kClients)];
    const uint32_t what = in.number(4);
    if (what == 0) {
      client = connectPeer(where, Purpose::kRendezvous, [&] { stepOnce(rendezvous); });
    } else if (what == 3) {
      client.reset();
    } else if (client != nullptr) {
      RendezvousRequest question{in.number(6), in.number(6), in.number(3) * 1'000'000, in.number(4) == 0, {}};
      if (in.number(2) == 0) question.hub = loopback(7);
      const Blob payload = what == 1 ? encode(question) : in.blob();
      const auto type = what == 1 ? MessageType::kRendezvousRequest : static_cast<MessageType>(in.number(32));
      hubCame = hubCame || (type == MessageType::kRendezvousRequest && (what == 2 || question.isHub));
      client->queue(type, payload);
      flush(*client);
    }
    for (int i = 0; i < 3; ++i) stepOnce(rendezvous);
    require(hubCame || !rendezvous.done());
  }
  if (hubCame) return 0;
  require(ask(rendezvous, where, {0, 9, 0, true, loopback(8)}));
  require(ask(rendezvous, where, {1, 9, 0, false, {}}));
  return 0;
}
