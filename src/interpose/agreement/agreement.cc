#include "src/interpose/agreement/agreement.h"

#include <algorithm>
#include <functional>

#include "bps/bps_ext.h"
#include "src/base/format.h"
#include "src/base/log.h"
#include "src/base/wire_io.h"
#include "src/interpose/agreement/card.h"
#include "src/interpose/agreement/device.h"
#include "src/interpose/agreement/exchange.h"
#include "src/interpose/settings.h"
#include "src/nccl/real.h"

namespace bps::interpose {
namespace {

Result<cuda::Device*> openDevice(int ordinal) {
  const cuda::Api* driver = BPS_TRY(cuda::driver());
  return cuda::Device::open(*driver, ordinal);
}

// What keeps this rank from a team; empty: nothing.
std::string obstacle(int ordinal) {
  if (!settings().wrong.ok()) return settings().wrong.message();
  if (buffersOnHost()) return "buffers are in host memory";
  Result<cuda::Device*> device = openDevice(ordinal);
  return device.ok() ? Team::obstacleOn(*std::move(device).value()) : std::string(device.error().message());
}

Card myCard(size_t room, int device) {
  const Settings& mine = settings();
  Card card;
  static_cast<nccl::Member&>(card) = nccl::Member::of(device, mine.env, obstacle(device));
  card.leastBytes = mine.env.ncclMinBytes.value;
  card.room = room;
  card.able = mine.wrong.ok();
  if (!card.able) card.why = mine.wrong.message();
  return card;
}

// A communicator of bps that is not yet anybody's; left again unless release() is called.
class Joined {
 public:
  Joined() = default;
  ~Joined() {
    if (comm_ != nullptr) (void)bpsCommAbort(comm_);
  }
  Joined(const Joined&) = delete;
  Joined& operator=(const Joined&) = delete;
  bpsComm_t get() const { return comm_; }
  bpsComm_t release() { return std::exchange(comm_, nullptr); }

  // Waits for the other ranks, or until the shadow ends.
  Status join(const Shadow& shadow, const bpsUniqueId& id) {
    bpsConfig_t config = BPS_CONFIG_INITIALIZER;
    config.blocking = 0;
    const bpsResult_t asked = bpsCommInitRankConfig(&comm_, shadow.nRanks(), id, shadow.rank(), &config);
    if (asked != bpsSuccess && asked != bpsInProgress) return {static_cast<Code>(asked), bpsGetLastError(nullptr)};
    return await(shadow);
  }
  // With the other owners of the part, of `parent`, in the order of their teams; without one: with nobody.
  Status split(const Shadow& shadow, bpsComm_t parent, int part, int lead) {
    bpsConfig_t config = BPS_CONFIG_INITIALIZER;
    config.blocking = 0;
    const bpsResult_t asked = bpsCommSplit(parent, part, lead, &comm_, &config);
    if (asked != bpsSuccess && asked != bpsInProgress) return {static_cast<Code>(asked), bpsGetLastError(parent)};
    return comm_ != nullptr ? await(shadow) : Status();
  }

 private:
  Status await(const Shadow& shadow) const {
    for (Patience patience;; patience.pause()) {
      bpsResult_t state = bpsSuccess;
      if (bpsCommGetAsyncError(comm_, &state) != bpsSuccess) return {Code::kInternal, bpsGetLastError(nullptr)};
      if (state == bpsSuccess) return {};
      if (state != bpsInProgress) return {static_cast<Code>(state), bpsGetLastError(comm_)};
      if (shadow.ending()) return {Code::kInvalidUsage, "the communicator was ended by another thread"};
    }
  }
  bpsComm_t comm_ = nullptr;
};

// All ranks join a communicator of bps, and the text is empty; or all are told why not.
Result<std::string> joinAll(Exchange& exchange, const Shadow& shadow, Joined& joined) {
  bpsUniqueId id{};
  Status made;
  if (shadow.rank() == 0 && bpsGetUniqueId(&id) != bpsSuccess) made = {Code::kSystem, bpsGetLastError(nullptr)};
  std::vector<uint8_t> all = BPS_TRY(exchange.gather(Outcome::bytes(made, id)));
  if (std::string why = Outcome::firstFailure(all); !why.empty()) return why;
  const Status mine = joined.join(shadow, Outcome::id(all));
  all = BPS_TRY(exchange.gather(Outcome::bytes(mine, id)));
  return Outcome::firstFailure(all);
}

// NCCL's communicator of this rank's team; null if it is alone in it.
Result<ncclComm_t> splitNccl(Exchange& exchange, const Shadow& shadow, const nccl::Teams& teams) {
  constexpr int kNoColor = -1;  // NCCL_SPLIT_NOCOLOR
  const bool alone = teams.sizeOf(shadow.rank()) == 1;
  const int color = alone ? kNoColor : teams.leadOf(shadow.rank());
  ncclComm_t made = nullptr;
  const ncclResult_t asked =
      BPS_REAL(ncclCommSplit, shadow.comm(), color, teams.placeOf(shadow.rank()), &made, nullptr);
  if (asked == ncclSuccess) return made;
  if (asked != ncclInProgress)
    return failure(static_cast<Code>(asked), "ncclCommSplit: {}", BPS_REAL(ncclGetErrorString, asked));
  // Its calls might return before they are in their streams, as those of the communicator that it comes from.
  exchange.sawInProgress();
  BPS_TRY(exchange.settled());
  if (made != nullptr) (void)BPS_REAL(ncclCommAbort, made);
  return Status(Code::kInvalidUsage, "the communicator is non-blocking");
}

Result<std::unique_ptr<Team>> teamUp(Exchange& exchange, const Shadow& shadow, const nccl::Teams& teams, int ordinal,
                                     bpsComm_t comm) {
  const int place = teams.placeOf(shadow.rank());
  const bool owns = place < teams.owners;
  Joined across;
  const Status joined = across.split(shadow, comm, owns ? place : BPS_SPLIT_NOCOLOR, teams.leadOf(shadow.rank()));
  // In any case: all ranks have to come. What may fail on this one alone comes later.
  Result<ncclComm_t> inside = splitNccl(exchange, shadow, teams);
  if (!inside.ok()) return std::move(inside).status();
  const auto made = std::move(inside).value();
  Result<cuda::Device*> device = openDevice(ordinal);
  if (!device.ok()) {
    if (made != nullptr) (void)BPS_REAL(ncclCommAbort, made);
    return std::move(device).status();
  }
  Result<std::unique_ptr<Team>> team = Team::create({place, teams.sizeOf(shadow.rank()), teams.owners, teams.anyOrder},
                                                    *std::move(device).value(), made, across.release());
  if (!joined.ok()) return joined.clone();
  return team;
}

struct TeamedUp {
  std::shared_ptr<Team> team;  // null unless every rank could
  std::string why;             // not
};

// Fails with what ends the communicator.
Result<TeamedUp> teamUpAll(Exchange& exchange, const Shadow& shadow, const nccl::Teams& teams, int device,
                           bpsComm_t comm) {
  if (teams.owners == 0) return TeamedUp{nullptr, teams.why};
  Result<std::unique_ptr<Team>> mine = teamUp(exchange, shadow, teams, device, comm);
  const std::vector<uint8_t> all =
      BPS_TRY(exchange.gather(Outcome::bytes(mine.ok() ? Status() : mine.error().clone(), bpsUniqueId{})));
  std::string why = Outcome::firstFailure(all);
  if (!why.empty()) return TeamedUp{nullptr, std::move(why)};
  TeamedUp up{std::move(mine).value(), {}};
  up.team->becomePartOf(comm, "in the part of ranks " + teams.ownersOf(teams.placeOf(shadow.rank())));
  return up;
}

Result<double> bestOfTwo(const std::function<Result<double>()>& once) {
  BPS_TRY(once());  // connects, registers, warms up
  const double first = BPS_TRY(once());
  return std::min(first, BPS_TRY(once()));
}

constexpr double kLost = 1e9;  // seconds, for what has failed

// One size by both; the slowest rank's times, the same on all ranks.
Result<Timing> timeOne(Exchange& exchange, const Shadow& shadow, size_t bytes, const Terms& terms) {
  const double nccl = BPS_TRY(bestOfTwo([&] { return exchange.timeNccl(bytes); }));
  Result<double> ours = bestOfTwo([&] { return exchange.timeBps(bytes, terms); });
  if (!ours.ok()) {
    logWarn(Subsystem::kInit, "measuring bps: {}", ours.error().message());
    if (terms.team != nullptr) terms.team->end(true);  // what is shown next comes behind its calls in the stream
  }
  const double bps = ours.ok() ? std::move(ours).value() : kLost;
  const Blob mine = WireWriter().put(nccl).put(bps).bytes();
  const std::vector<uint8_t> all = BPS_TRY(exchange.gather(mine));
  Timing slowest{bytes, 0, 0};
  WireReader reader(all);
  for (int rank = 0; rank < shadow.nRanks(); ++rank) {
    slowest.nccl = std::max(slowest.nccl, reader.getDouble());
    slowest.bps = std::max(slowest.bps, reader.getDouble());
  }
  return slowest;
}

Result<size_t> measure(Exchange& exchange, const Shadow& shadow, size_t room, const Terms& terms) {
  constexpr size_t kFirst = 64U << 10, kGrowth = 4;
  constexpr double kLong = 0.2;  // seconds: a network as slow as that need not be asked further
  std::vector<Timing> timings;
  for (size_t bytes = kFirst; bytes <= std::max(room, kFirst); bytes *= kGrowth) {
    timings.push_back(BPS_TRY(timeOne(exchange, shadow, bytes, terms)));
    const Timing& last = timings.back();
    if (shadow.rank() == 0)
      logInfo(Subsystem::kInit, "{} bytes: NCCL {:.0f} us, bps {:.0f} us", bytes, last.nccl * 1e6, last.bps * 1e6);
    if (std::max(last.nccl, last.bps) > kLong) break;
  }
  return crossOver(timings);
}

void logTerms(const Shadow& shadow, const Conclusion& what, const Terms& terms, const std::string& notTeamed) {
  if (shadow.rank() != 0) return;
  const nccl::RealNccl* real = nccl::realNccl();
  const std::string head =
      fmt::format("NCCL communicator of {} ranks on {} machines: ", shadow.nRanks(), what.machines);
  if (terms.served == nullptr) {
    logInfo(Subsystem::kInit, "{}all by NCCL ({}): {}", head, real->path, what.reason);
    return;
  }
  std::vector<char> facts(64U << 10);
  (void)bpsCommDescribe(terms.served, facts.data(), facts.size());
  logInfo(Subsystem::kInit,
          "{}all-reduces of {} bytes and more by bps ({}); smaller ones, captured ones and all other "
          "calls by NCCL ({})",
          head, terms.leastBytes, what.reason, real->path);
  logInfo(Subsystem::kInit, "bps: {}", facts.data());
  if (terms.team != nullptr)
    logInfo(Subsystem::kInit, "inside machines: {}{}", terms.team->inWords(),
            settings().env.topoCounters.empty() ? "" : "; what NCCL copies for it is not in BPS_TOPO_COUNTERS' files");
  else logInfo(Subsystem::kInit, "inside machines: by bps, in host memory ({})", notTeamed);
}

Result<std::vector<Card>> showCards(Exchange& exchange, const Shadow& shadow, int device) {
  const std::vector<uint8_t> all = BPS_TRY(exchange.gather(myCard(exchange.room(), device).bytes()));
  std::vector<Card> cards;
  cards.reserve(static_cast<size_t>(shadow.nRanks()));
  for (int rank = 0; rank < shadow.nRanks(); ++rank)
    cards.push_back(
        BPS_TRY(Card::parse(std::span(all).subspan(static_cast<size_t>(rank) * Card::kBytes, Card::kBytes))));
  return cards;
}

Result<int> deviceOf(const Shadow& shadow) {
  int device = 0;
  const ncclResult_t asked = BPS_REAL(ncclCommCuDevice, shadow.comm(), &device);
  if (asked != ncclSuccess)
    return failure(static_cast<Code>(asked), "ncclCommCuDevice: error {}", static_cast<int>(asked));
  return device;
}

}  // namespace

Result<Terms> agree(Shadow& shadow) {
  nccl::leaveTeamsToCaller();
  const size_t record = std::max(Card::kBytes, Outcome::kBytes);
  const int device = BPS_TRY(deviceOf(shadow));
  const OnDevice here = BPS_TRY(OnDevice::enter(device));
  Exchange exchange = BPS_TRY(Exchange::open(shadow, device, record));
  BPS_TRY(exchange.settled());  // a non-blocking communicator may not have ended what its group has begun
  const std::vector<Card> cards = BPS_TRY(showCards(exchange, shadow, device));
  Conclusion what = conclude(cards);
  Terms terms;
  terms.device = device;
  std::string notTeamed;  // why
  if (what.join) {
    Joined joined;
    const std::string why = BPS_TRY(joinAll(exchange, shadow, joined));
    if (why.empty()) {
      terms.served = joined.get();
      TeamedUp up = BPS_TRY(teamUpAll(exchange, shadow, teamsOf(std::vector<nccl::Member>(cards.begin(), cards.end())),
                                      device, joined.get()));
      terms.team = std::move(up.team);
      notTeamed = std::move(up.why);
      terms.leastBytes = what.measure ? BPS_TRY(measure(exchange, shadow, what.room, terms)) : what.leastBytes;
      if (terms.leastBytes != kNever) {
        (void)joined.release();
      } else {
        what.reason = "NCCL was quicker at all sizes";
        if (terms.team != nullptr) terms.team->end(false);
        (void)bpsCommDestroy(joined.release());
        terms = Terms();
        terms.device = device;
      }
    } else {
      what.reason = why;
      if (shadow.rank() == 0) logWarn(Subsystem::kInit, "bps serves nothing, NCCL does all: {}", what.reason);
    }
  }
  logTerms(shadow, what, terms, notTeamed);
  return terms;
}

}  // namespace bps::interpose
