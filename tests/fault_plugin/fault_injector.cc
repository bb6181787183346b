#include "tests/fault_plugin/fault_injector.h"

#include <cstdlib>

#include "src/base/env.h"
#include "src/base/format.h"
#include "src/base/mutex.h"

namespace bps::fault {
namespace {

std::string variable(const char* name) {
  const char* text = std::getenv(name);
  return text != nullptr ? text : "";
}

Result<uint64_t> number(const char* name, const char* meaning) {
  const std::string text = variable(name);
  if (text.empty()) return uint64_t{0};
  Result<double> parsed = parseNumber(text);
  const double value = parsed.ok() ? std::move(parsed).value() : -1;
  if (value < 0 || value > 0x1p53) return failure(Code::kInvalidArgument, "{}={}: not a {}", name, text, meaning);
  return static_cast<uint64_t>(value);
}

bool reaches(std::atomic<uint64_t>& counter, uint64_t by, double mark) {
  const uint64_t before = counter.fetch_add(by);
  return mark > 0 && static_cast<double>(before) < mark && static_cast<double>(before + by) >= mark;
}

}  // namespace

uint64_t FaultRandom::draw() {  // splitmix64
  uint64_t x = state_ += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

bool FaultRandom::drawEvent(double chance) {
  return chance > 0 && static_cast<double>(draw() >> 11) * 0x1p-53 < chance;
}

uint64_t FaultRandom::drawBelow(uint64_t end) { return draw() % end; }

Result<std::shared_ptr<FaultInjector>> FaultInjector::current() {
  static Mutex mutex;
  static std::shared_ptr<FaultInjector> injector;
  static std::string madeOf;
  const std::string rank = variable("BPS_RANK");
  const std::string text = variable("FAULT_PLUGIN_SPEC"), seedText = variable("FAULT_PLUGIN_SEED");
  const MutexLock lock(mutex);
  if (injector != nullptr && madeOf == text + "\n" + seedText) return injector;
  Spec spec = BPS_TRY(parseSpec(text));
  const uint64_t seed = BPS_TRY(number("FAULT_PLUGIN_SEED", "whole number"));
  const double here = rank.empty() ? -1 : static_cast<double>(BPS_TRY(number("BPS_RANK", "rank")));
  if (spec.onlyRank != kAnyRank && spec.onlyRank != here) spec = Spec();
  injector = std::shared_ptr<FaultInjector>(
      new FaultInjector(spec, FaultRandom(seed * 1000003 + static_cast<uint64_t>(here + 1)).drawBelow(1ULL << 62)));
  madeOf = text + "\n" + seedText;
  return injector;
}

FaultRandom FaultInjector::random() {
  return FaultRandom(FaultRandom(seed_ + connections_.fetch_add(1)).drawBelow(1ULL << 62));
}

Status FaultInjector::count(Call call) {
  const auto index = static_cast<size_t>(call);
  if (!reaches(calls_[index], 1, spec_.failAt(call))) return {};
  return failure(Code::kSystem, "injected failure of {} call {:g}", kCallNames[index], spec_.failAt(call));
}

bool FaultInjector::shouldRefuse() { return static_cast<double>(attempts_.fetch_add(1)) < spec_.refuseFirst; }

bool FaultInjector::shouldBreakAfter(size_t bytes) {
  const bool full = reaches(bytes_, bytes, spec_.disconnectBytes);
  return reaches(requests_, 1, spec_.disconnectRequests) || full;
}

bool FaultInjector::shouldCorrupt(size_t bytes) {
  return bytes > 0 && static_cast<double>(bytes) <= spec_.corruptMost && reaches(received_, 1, spec_.corruptAt);
}

bool FaultInjector::shouldLose() { return reaches(losable_, 1, spec_.loseAt); }

bool FaultInjector::shouldShorten(size_t bytes) {
  const auto size = static_cast<double>(bytes);
  return size >= spec_.shortLeast && size <= spec_.shortMost && reaches(candidates_, 1, spec_.shortAt);
}

}  // namespace bps::fault
