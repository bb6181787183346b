#include "src/service/parameters/param_store.h"

#include <array>
#include <cstring>

#include "src/base/format.h"
#include "src/service/round.h"

namespace bps {

// Makes the part if it does not exist.
Result<ParamStore::Part*> ParamStore::make(const CallInfo& call, const ParamPart& part) {
  const std::pair key(part.param, part.offset);
  if (parts_.contains(key)) return find(call, part);
  Part made;
  made.type = static_cast<DataType>(call.type);
  made.count = part.count;
  if (reserve_) BPS_TRY(reserve_(made.memory() + overhead()));
  made.value = BPS_TRY(PageBuffer::create(made.bytes()));
  made.clock.machines.resize(machines_);
  if (part.count < call.count) made.last.resize(machines_);
  bytes_ += made.bytes();
  return &parts_.emplace(key, std::move(made)).first->second;
}

Result<ParamStore::Part*> ParamStore::set(const CallInfo& call, const ParamPart& part, const void* data) {
  Part* const place = BPS_TRY(make(call, part));
  if (Observer* const observer = observer_.load(std::memory_order_acquire)) observer->onSet(*this, part, *place, data);
  std::memcpy(place->value.data(), data, place->bytes());
  return place;
}

Result<ParamStore::Part*> ParamStore::restore(const CallInfo& call, const ParamPart& part, size_t machine,
                                              const ParamClock& clock, const void* data) {
  const bool begins = !parts_.contains({part.param, part.offset});
  Part* const place = BPS_TRY(make(call, part));
  if (begins) {
    place->restored = true;
    place->awaits.assign(machines_, true);
  }
  if (place->awaits.empty() || !place->awaits[machine]) return place;  // came after a machine that was taken for lost
  place->awaits[machine] = false;
  const bool newer = data != nullptr && clock.machines.size() == machines_ && clock.version >= place->clock.version;
  if (!newer) return place;
  place->clock = clock;
  std::memcpy(place->value.data(), data, place->bytes());
  return place;
}

Result<ParamStore::Part*> ParamStore::find(const CallInfo& call, const ParamPart& part) {
  const auto found = parts_.find({part.param, part.offset});
  if (found == parts_.end())
    return failure(Code::kRemote, "{}: parameter {} has no part at element {}", describe(call), part.param,
                   part.offset);
  Part& place = found->second;
  if (place.count != part.count || place.type != static_cast<DataType>(call.type))
    return failure(Code::kRemote, "{}: {} {} at element {} of parameter {}, which has {} {} there", describe(call),
                   part.count, dataTypeName(static_cast<DataType>(call.type)), part.offset, part.param, place.count,
                   dataTypeName(place.type));
  return &place;
}

Status ParamStore::add(Part& place, const ParamPart& part, size_t machine, const void* change) {
  uint32_t& pushes = place.clock.machines[machine];
  if (place.restored && part.push <= pushes) return {};  // the value contains it
  if (part.push != pushes + 1)
    return failure(Code::kRemote, "push {} to element {} of parameter {} came where push {} was due", part.push,
                   part.offset, part.param, pushes + 1);
  if (Observer* const observer = observer_.load(std::memory_order_acquire))
    observer->onAdd(*this, part, machine, change);
  BPS_TRY(keepLast(place, machine, change));
  combine(place, change, nullptr);
  ++pushes;
  ++place.clock.version;
  return {};
}

Status ParamStore::keepLast(Part& place, size_t machine, const void* change) {
  if (place.last.empty()) return {};
  PageBuffer& last = place.last[machine];
  if (last.size() == 0) {
    if (reserve_) BPS_TRY(reserve_(place.memory()));
    last = BPS_TRY(PageBuffer::create(place.bytes()));
    bytes_ += place.bytes();
  }
  std::memcpy(last.data(), change, place.bytes());
  return {};
}

void ParamStore::undo(Part& place, size_t machine, uint32_t push) {
  if (place.clock.machines[machine] != push || place.last.empty() || place.last[machine].size() == 0) return;
  const ScalarBits one = scalarOne(place.type);
  const bool isFloat = place.type >= DataType::kFloat16;
  const ScalarBits sign = ScalarBits{1} << (8 * elementBytes(place.type) - 1);
  const std::array<ScalarBits, 2> factors{one, isFloat ? one | sign : ~ScalarBits{0}};
  combine(place, place.last[machine].data(), factors.data());
  --place.clock.machines[machine];
  ++place.clock.version;
  place.last[machine] = PageBuffer();
}

// Adds the change, times its factor, to the value, times its factor.
void ParamStore::combine(Part& place, const void* change, const ScalarBits* factors) const {
  const std::array<const void*, 2> sources{place.value.data(), change};
  ReduceArgs args;
  args.dst = place.value.data();
  args.sources = sources;
  args.count = place.count;
  args.type = place.type;
  args.threads = threads_;
  if (factors != nullptr) args.scalars = {factors, sources.size()};
  if (args.count > 0) reduce(args);
}

}  // namespace bps
