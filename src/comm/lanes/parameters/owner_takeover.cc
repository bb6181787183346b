#include "src/comm/lanes/parameters/owner_takeover.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

namespace bps {
namespace {

std::unique_ptr<Collective> request(CallOp op, const ParamCopies::Key& key, const ParamCopies::Copy& copy) {
  auto call = std::make_unique<Collective>();
  call->call.count = copy.ofParameter;
  call->call.type = static_cast<uint8_t>(copy.type);
  call->call.op = static_cast<uint8_t>(op);
  call->chunks.push_back({copy.owner, 0, copy.count * elementBytes(copy.type)});
  call->param = ParamCall{key.first, 0, key.second};
  call->rounds = call->remaining = 1;
  return call;
}

}  // namespace

OwnerTakeover::OwnerTakeover(OwnerTakeoverSpec spec)
    : spec_(std::move(spec)),
      lost_(spec_.owners.size()),
      actingOwner_(spec_.owners.size()),
      ownedBy_(spec_.owners.size(), std::vector<bool>(spec_.owners.size())) {
  std::iota(actingOwner_.begin(), actingOwner_.end(), size_t{0});
}

size_t OwnerTakeover::nextLiving(size_t endpoint) const {
  size_t next = endpoint % spec_.machines;
  do next = (next + 1) % spec_.machines;
  while (lost_[next]);
  return next;
}

void OwnerTakeover::lose(size_t endpoint) {
  wasFirst_ = isFirst();
  lost_[endpoint] = true;
  for (size_t owner = 0; owner < spec_.owners.size(); ++owner) {
    if (actingOwner_[owner] != endpoint) continue;
    ownedBy_[endpoint][owner] = true;
    actingOwner_[owner] = nextLiving(owner);
  }
}

void OwnerTakeover::restore(size_t lost) {
  for (const auto& [key, copy] : spec_.copies->parts()) {
    if (!ownedBy_[lost][copy->owner]) continue;
    sent_.push_back(request(CallOp::kParamRestore, key, *copy));
    Collective& call = *sent_.back();
    call.send = copy->value.empty() ? nullptr : copy->value.data();
    call.recv = const_cast<uint8_t*>(call.send);  // the answer is empty
    call.param->restored = copy->clock;
    spec_.submit(call);
  }
  tellOwners(CallOp::kParamRestored, static_cast<uint32_t>(lost));
}

// If the machine that settled is lost itself, the next one settles for all that are lost.
void OwnerTakeover::settle(size_t lost) {
  if (!isFirst()) return;
  for (size_t machine = 0; machine < spec_.machines; ++machine)
    if (lost_[machine] && (machine == lost || !wasFirst_)) ask(static_cast<uint32_t>(machine));
}

void OwnerTakeover::ask(uint32_t machine) {
  Settlement settlement;
  settlement.machine = machine;
  for (const auto& [key, copy] : spec_.copies->parts()) {
    settlement.parts.push_back({key, copy, request(CallOp::kParamAsk, key, *copy)});
    settlement.parts.back().call->param->machine = machine;
    spec_.submit(*settlement.parts.back().call);
  }
  settlements_.push_back(std::move(settlement));
}

bool OwnerTakeover::Settlement::answered() const {
  return std::all_of(parts.begin(), parts.end(), [](const Part& part) { return part.call->remaining == 0; });
}

void OwnerTakeover::step() {
  while (!sent_.empty() && sent_.front()->remaining == 0) sent_.pop_front();
  while (!settlements_.empty() && settlements_.front().answered()) {
    Settlement& settlement = settlements_.front();
    if (!std::exchange(settlement.takesBack, true)) {
      takeBack(settlement);
    } else {
      tellOwners(CallOp::kParamSettled, settlement.machine);
      settlements_.pop_front();
    }
  }
}

void OwnerTakeover::takeBack(Settlement& settlement) {
  const std::vector<bool>& own = ownedBy_[settlement.machine];
  const auto pushesOf = [&](const Settlement::Part& part) {
    return part.call->param->progress->of(settlement.machine);
  };
  std::map<uint32_t, uint32_t> whole;  // by parameter: the pushes that all parts contain
  for (const Settlement::Part& part : settlement.parts) {
    if (own[part.copy->owner]) continue;
    const auto [entry, first] = whole.try_emplace(part.key.first, pushesOf(part));
    if (!first) entry->second = std::min(entry->second, pushesOf(part));
  }
  for (Settlement::Part& part : settlement.parts) {
    const auto entry = whole.find(part.key.first);
    const uint32_t pushes = pushesOf(part);
    if (entry == whole.end() || pushes <= entry->second) continue;
    part.call = request(CallOp::kParamUndo, part.key, *part.copy);
    part.call->param->machine = settlement.machine;
    part.call->param->push = pushes;
    spec_.submit(*part.call);
  }
}

void OwnerTakeover::tellOwners(CallOp op, uint32_t machine) {
  auto call = std::make_unique<Collective>();
  call->call.op = static_cast<uint8_t>(op);
  call->param.emplace().machine = machine;
  for (uint32_t owner = 0; owner < spec_.owners.size(); ++owner)
    if (spec_.owners[owner]) call->chunks.push_back({owner});
  call->rounds = 1;
  call->remaining = call->chunks.size();
  sent_.push_back(std::move(call));
  spec_.submit(*sent_.back());
}

}  // namespace bps
