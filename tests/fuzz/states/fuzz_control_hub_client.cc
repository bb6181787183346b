// Fuzzes a rank with a hub that sends frames in any order. Callers on the rank must get results in the documented form,
// or a single failure.
#include "src/control/hub_client.h"
#include "src/control/keys/crypto.h"
#include "src/plan/job_plan.h"
#include "tests/fuzz/states/peers.h"

namespace {

using namespace bps;
using namespace bps::fuzz;

Roster rosterOf(Input& in) {
  Roster roster;
  roster.jobId = kJob;
  const uint32_t shape = in.number(3);
  roster.ranks = {{"a", "hostA", 1, 0, 0}, {"b", "hostB", 2, shape == 0 ? 0U : 1U, shape == 0 ? 1U : 0U}};
  if (shape == 0) roster.machines = {{{0, 1}, 0}};
  else roster.machines = {{{0}, 0}, {{1}, 0}};
  if (shape == 2) roster.servers = {{"s:1", 0}};
  roster.settings = {1 << 20, 0, 0, kTimeoutMs, 1};
  if (in.number(8) == 0) roster.settings = {in.any(), in.any(), in.any(), in.any(), in.any()};
  if (in.number(8) == 0) roster.ranks.resize(in.number(4));
  return roster;
}

class Scene {
 public:
  explicit Scene(int listener) {
    HubClientArgs args{{}, credentials(), {}, Deadline::in(std::chrono::hours(1))};
    args.id.kind = UniqueId::Kind::kHub;
    args.id.address = std::move(localAddress(listener)).value();
    args.join.rank = 1;
    args.join.nRanks = 2;
    client_ = std::make_unique<HubClient>(std::move(args), told_);
    hub_ = acceptPeer(listener, Purpose::kJoin, kJob, [this] { stepOnce(*client_); });
  }

  void move(Input& in) {
    switch (in.number(8)) {
      case 0:
        send(MessageType::kRoster, encode(rosterOf(in)));
        break;
      case 1:
        send(static_cast<MessageType>(in.number(32)), in.blob());
        break;
      case 2: {
        const ControlOpInput part = randomOpInput(in, numbers_);
        send(MessageType::kControlOpResult, encode(ControlOpResult{part.kind, part.number, part.blobs}));
        break;
      }
      case 3:
        rightAnswer(in);
        break;
      case 4:
        if (told_.roster && !asked_) ask(in);
        break;
      case 5:
        send(MessageType::kLeft, encode(Left{in.any()}));
        break;
      case 6:
        if (told_.roster) client_->suspect(in.number(4), "it broke");
        break;
      default:
        if (in.number(16) == 0) hub_.reset();
        else if (in.number(16) == 0 && !left_ && (left_ = true)) client_->leave();
    }
    for (int i = 0; i < 3; ++i) stepOnce(*client_);
    check();
  }

 private:
  void send(MessageType type, const Blob& payload) {
    if (hub_ == nullptr) return;
    hub_->queue(type, payload);
    flush(*hub_);
  }
  void ask(Input& in) {
    kind_ = static_cast<ControlOp>(in.number(kControlOps));
    mine_ = in.blob();
    std::vector<Blob> blobs;
    if (isGather(kind_)) blobs = {mine_};
    if (kind_ == ControlOp::kExchange) {
      blobs.resize(told_.roster->endpoints());
      blobs[told_.roster->endpointOf(1)] = mine_;
    }
    asked_ = true;
    client_->startOp(kind_, blobs, Deadline::never());
  }
  void rightAnswer(Input& in) {
    if (!asked_ || !told_.roster) return;
    ControlOpResult answer{kind_, numbers_[static_cast<size_t>(kind_)], {}};
    for (size_t i = 0; i < resultItems(kind_, *told_.roster); ++i)
      answer.blobs.push_back(i == ownItem(kind_, *told_.roster, 1) ? mine_ : in.blob());
    send(MessageType::kControlOpResult, encode(answer));
  }
  void check() {
    if (told_.roster && !planned_ && (planned_ = true)) (void)JobPlan::make(*told_.roster).ok();
    for (const std::vector<Blob>& answer : told_.answers) {
      require(asked_ && answer.size() == resultItems(kind_, *told_.roster));
      require(answer.empty() || answer[ownItem(kind_, *told_.roster, 1)] == mine_);
      ++numbers_[static_cast<size_t>(kind_)];
      asked_ = false;
    }
    told_.answers.clear();
  }

  CheckedEvents told_;
  std::unique_ptr<HubClient> client_;
  std::unique_ptr<ControlSocket> hub_;
  std::array<uint32_t, kControlOps> numbers_{};
  ControlOp kind_ = ControlOp::kGather;
  Blob mine_;
  bool asked_ = false, planned_ = false, left_ = false;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 2000 || !cryptoInit().ok()) return 0;
  static const UniqueFd listener = std::move(listenOn(loopback())).value();
  while (std::move(acceptFrom(listener.get())).value()) continue;  // drops connections of the previous run
  Scene scene(listener.get());
  for (Input in(data, size); !in.empty();) scene.move(in);
  return 0;
}
