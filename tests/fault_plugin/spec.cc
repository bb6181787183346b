#include "tests/fault_plugin/spec.h"

#include <algorithm>
#include <string>

#include "src/base/env.h"
#include "src/base/format.h"

namespace bps::fault {
namespace {

struct Key {
  std::string_view item, name;  // `name` is the key; it is empty for an item without keys
  double Spec::*member;
  double least, most;
};

constexpr double kMany = 1e15;
constexpr Key kKeys[] = {
    {"delay", "p", &Spec::delayChance, 0, 1},
    {"delay", "us", &Spec::delayMicroseconds, 1, 1e7},
    {"busy", "p", &Spec::busyChance, 0, 1},
    {"slow", "p", &Spec::slowChance, 0, 1},
    {"slow", "polls", &Spec::slowPolls, 1, kMany},
    {"refuse", "first", &Spec::refuseFirst, 1, kMany},
    {"disconnect", "bytes", &Spec::disconnectBytes, 1, kMany},
    {"disconnect", "requests", &Spec::disconnectRequests, 1, kMany},
    {"disconnect", "oneside", &Spec::disconnectOneSide, 0, 1},
    {"error", "p", &Spec::errorChance, 0, 1},
    {"fail", "init", &Spec::failInit, 1, kMany},
    {"fail", "listen", &Spec::failListen, 1, kMany},
    {"fail", "connect", &Spec::failConnect, 1, kMany},
    {"fail", "accept", &Spec::failAccept, 1, kMany},
    {"fail", "regmr", &Spec::failRegMr, 1, kMany},
    {"fail", "isend", &Spec::failIsend, 1, kMany},
    {"fail", "irecv", &Spec::failIrecv, 1, kMany},
    {"fail", "test", &Spec::failTest, 1, kMany},
    {"corrupt", "at", &Spec::corruptAt, 1, kMany},
    {"corrupt", "most", &Spec::corruptMost, 1, kMany},
    {"short", "at", &Spec::shortAt, 1, kMany},
    {"short", "least", &Spec::shortLeast, 1, kMany},
    {"short", "most", &Spec::shortMost, 1, kMany},
    {"lose", "at", &Spec::loseAt, 1, kMany},
    {"nowait", "", &Spec::noWait, 0, 1},
    {"deaf", "", &Spec::hangupHidden, 0, 1},
    {"gpu", "claims", &Spec::gpuClaims, 0, 1},
    {"gpu", "takes", &Spec::gpuTakes, 0, 1},
    {"gpu", "reaches", &Spec::gpuReaches, 0, 1},
    {"only", "rank", &Spec::onlyRank, -1, 1e6},
};

// Removes the text before the separator from `rest` and returns that text.
std::string_view next(std::string_view& rest, char separator) {
  const size_t end = rest.find(separator);
  const std::string_view first = rest.substr(0, end);
  rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
  return first;
}

// Lists the keys of an item. If `item` is empty, lists all items.
std::string known(std::string_view item) {
  std::string names, last;
  for (const Key& key : kKeys) {
    if (!item.empty() && key.item != item) continue;
    const std::string name(item.empty() ? key.item : key.name);
    if (name != last) names += (names.empty() ? "" : ", ") + name;
    last = name;
  }
  return names;
}

Status setKey(std::string_view item, std::string_view text, Spec& spec) {
  std::string_view value = text;
  const std::string_view name = next(value, '=');
  const auto* key =
      std::find_if(std::begin(kKeys), std::end(kKeys), [&](const Key& k) { return k.item == item && k.name == name; });
  if (key == std::end(kKeys))
    return failure(Code::kInvalidArgument, "{} has no \"{}\", it has: {}", item, name, known(item));
  std::string digits(value);
  double scale = 1;
  if (!digits.empty() && (digits.back() == 'K' || digits.back() == 'M')) {
    scale = digits.back() == 'K' ? 1024 : 1024 * 1024;
    digits.pop_back();
  }
  Result<double> number = parseNumber(digits);
  const double parsed = number.ok() ? std::move(number).value() * scale : -kMany;
  if (parsed < key->least || parsed > key->most)
    return failure(Code::kInvalidArgument, "{} is not a number from {:g} to {:g}", text, key->least, key->most);
  spec.*(key->member) = parsed;
  return {};
}

Status setItem(std::string_view text, Spec& spec) {
  std::string_view keys = text;
  const std::string_view item = next(keys, ':');
  const auto* first = std::find_if(std::begin(kKeys), std::end(kKeys), [&](const Key& k) { return k.item == item; });
  if (first == std::end(kKeys))
    return failure(Code::kInvalidArgument, "there is no \"{}\", there are: {}", item, known(""));
  if (first->name.empty()) {
    if (text != item) return failure(Code::kInvalidArgument, "{} stands alone", item);
    spec.*(first->member) = 1;
    return {};
  }
  if (keys.empty()) return failure(Code::kInvalidArgument, "{} needs some of: {}", item, known(item));
  while (!keys.empty()) BPS_TRY(setKey(item, next(keys, ','), spec));
  return {};
}

}  // namespace

double Spec::failAt(Call call) const {
  constexpr double Spec::*kMembers[kCalls] = {&Spec::failInit,   &Spec::failListen, &Spec::failConnect,
                                              &Spec::failAccept, &Spec::failRegMr,  &Spec::failIsend,
                                              &Spec::failIrecv,  &Spec::failTest};
  return this->*kMembers[static_cast<size_t>(call)];
}

Result<Spec> parseSpec(std::string_view text) {
  Spec spec;
  while (!text.empty()) {
    const std::string_view item = next(text, ';');
    Status set = setItem(item, spec);
    if (!set.ok()) return std::move(set).within(fmt::format("FAULT_PLUGIN_SPEC: item \"{}\"", item));
  }
  return spec;
}

}  // namespace bps::fault
