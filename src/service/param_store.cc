#include "src/service/param_store.h"

#include <array>
#include <cstring>

#include "src/base/format.h"

namespace bps {

Result<ParamStore::Part*> ParamStore::set(const CallInfo& call, const ParamPart& part, const void* data) {
  const std::pair key(part.param, part.offset);
  if (!parts_.contains(key)) {
    Part made;
    made.type = static_cast<DataType>(call.type);
    made.count = part.count;
    if (reserve_) BPS_TRY(reserve_(made.bytes()));
    made.value = BPS_TRY(PageBuffer::create(made.bytes()));
    made.clocks.resize(machines_);
    bytes_ += made.bytes();
    parts_.emplace(key, std::move(made));
  }
  Part* const place = BPS_TRY(find(call, part));
  if (Observer* const observer = observer_.load(std::memory_order_acquire)) observer->onSet(*this, part, *place, data);
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
  if (part.push != place.clocks[machine] + 1)
    return failure(Code::kRemote, "push {} to element {} of parameter {} came where push {} was due", part.push,
                   part.offset, part.param, place.clocks[machine] + 1);
  if (Observer* const observer = observer_.load(std::memory_order_acquire)) observer->onAdd(*this, part, machine, change);
  const std::array<const void*, 2> sources{place.value.data(), change};
  ReduceArgs args;
  args.dst = place.value.data();
  args.sources = sources;
  args.count = place.count;
  args.type = place.type;
  args.threads = threads_;
  if (args.count > 0) reduce(args);
  ++place.clocks[machine];
  ++place.version;
  return {};
}

}  // namespace bps
