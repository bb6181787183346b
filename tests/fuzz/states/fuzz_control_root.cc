// The rendezvous and visitors that send frames in any order. Whoever asks rightly afterwards is answered, unless one of
// them was rank 0 itself.
#include "src/control/keys/secret.h"
#include "src/control/root/root_desk.h"
#include "tests/fuzz/states/peers.h"

namespace {

using namespace bps;
using namespace bps::fuzz;

constexpr size_t kVisitors = 4;

// The next frame but heartbeats, while the desk goes on.
std::optional<Frame> answerOf(RootDesk& desk, ControlSocket& visitor) {
  for (int i = 0; i < 20; ++i) {
    turn(desk);
    Result<std::optional<Frame>> came = visitor.read();
    if (!came.ok()) return std::nullopt;
    std::optional<Frame> frame = std::move(came).value();
    if (frame && frame->header.type != MessageType::kHeartbeat) return frame;
  }
  return std::nullopt;
}

bool ask(RootDesk& desk, const Address& where, const AskRoot& question) {
  const auto visitor = enter(where, Purpose::kRedirect, [&] { turn(desk); });
  require(visitor != nullptr);
  visitor->queue(question);
  flush(*visitor);
  const std::optional<Frame> frame = answerOf(desk, *visitor);
  return frame && frame->header.type == MessageType::kRedirect;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 2000 || !secretInit().ok()) return 0;
  static const Address where = freeAddress();
  Result<Doorman> doorman = Doorman::create(where, credentials(), Purpose::kRedirect, kJob);
  if (!doorman.ok()) return 0;
  RootDesk desk(std::move(doorman).value(), kTimeoutMs);
  std::unique_ptr<ControlSocket> visitors[kVisitors];
  bool hubCame = false;
  for (Input in(data, size); !in.empty();) {
    auto& visitor = visitors[in.number(kVisitors)];
    const uint32_t what = in.number(4);
    if (what == 0) {
      visitor = enter(where, Purpose::kRedirect, [&] { turn(desk); });
    } else if (what == 3) {
      visitor.reset();
    } else if (visitor != nullptr) {
      AskRoot question{in.number(6), in.number(6), in.number(3) * 1'000'000, in.number(4) == 0, {}};
      if (in.number(2) == 0) question.hub = loopback(7);
      const Blob payload = what == 1 ? encode(question) : in.blob();
      const auto type = what == 1 ? MessageType::kAskRoot : static_cast<MessageType>(in.number(32));
      hubCame = hubCame || (type == MessageType::kAskRoot && (what == 2 || question.isHub));
      visitor->queue(type, payload);
      flush(*visitor);
    }
    for (int i = 0; i < 3; ++i) turn(desk);
    require(hubCame || !desk.done());
  }
  if (hubCame) return 0;
  require(ask(desk, where, {0, 9, 0, true, loopback(8)}));
  require(ask(desk, where, {1, 9, 0, false, {}}));
  return 0;
}
