#include "src/service/param_store.h"

#include <array>
#include <cstring>

#include "src/base/format.h"

namespace bps {

// Makes the part if it does not exist.
Result<ParamStore::Part*> ParamStore::make(const CallInfo& call, const ParamPart& part) {
  const std::pair key(part.param, part.offset);
  if (parts_.contains(key)) return find(call, part);
  Part made;
  made.type = static_cast<DataType>(call.type);
  made.count = part.count;
  if (reserve_) BPS_TRY(reserve_(made.bytes()));
  made.value = BPS_TRY(PageBuffer::create(made.bytes()));
  made.clock.machines.resize(machines_);
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
    return failure(Code::kRemote, "{}: parameter {} has no part at element {}", describe(call), part.param, part.offset);
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
  if (Observer* const observer = observer_.load(std::memory_order_acquire)) observer->onAdd(*this, part, machine, change);
  const std::array<const void*, 2> sources{place.value.data(), change};
  ReduceArgs args;
  args.dst = place.value.data();
  args.sources = sources;
  args.count = place.count;
  args.type = place.type;
  args.threads = threads_;
  if (args.count > 0) reduce(args);
  ++pushes;
  ++place.clock.version;
  return {};
}

}  // namespace bps
