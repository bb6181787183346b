#include "src/comm/watchdog/call_watchdog.h"

#include <utility>

#include "cpu_reduce/reduce.h"
#include "src/base/format.h"
#include "src/base/log.h"

namespace bps {
namespace {

constexpr size_t kMaxDumpedCalls = 64;

// The user has asked for these lines, so BPS_DEBUG does not suppress them.
template <class... Args>
void dumpLine(fmt::format_string<Args...> text, Args&&... args) {
  logWrite(LogLevel::kInfo, Subsystem::kColl, "state: " + fmt::format(text, std::forward<Args>(args)...));
}

std::string waitsText(const CallsInFlight& calls) {
  if (calls.copying) return "a copy to or from a GPU is in flight";
  const std::string text = describeWaits(calls.peerWaits());
  return text.empty() ? "no data of a peer is missing" : text;
}

void dumpCall(const Collective& call) {
  const size_t bytes = call.call.count * elementBytes(static_cast<DataType>(call.call.type));
  dumpLine("  {}: {} bytes, {} of {} chunks complete", describe(call.call), bytes, call.chunks.size() - call.remaining,
           call.chunks.size());
}

void dumpPeer(const PeerWait& wait) {
  const bool sum = wait.data == PeerWait::Data::kSum;
  const std::string unsent =
      wait.unsent == 0 ? "" : fmt::format("; {} {} for it not sent yet", wait.unsent, sum ? "contributions" : "sums");
  const std::string state = wait.missing == 0 ? "all arrived" : fmt::format("{} missing", wait.missing);
  dumpLine("  {} from {}: {}{}", sum ? "sums" : "contributions", wait.peer, state, unsent);
}

}  // namespace

std::vector<PeerWait> CallsInFlight::peerWaits() const {
  std::vector<PeerWait> waits;
  if (local != nullptr) local->addPeerWaits(waits);
  if (plane != nullptr) plane->addPeerWaits(waits);
  return waits;
}

void CallWatchdog::check(const CallsInFlight& calls) {
  if (calls.active.empty()) return backoff_.restart();
  const auto waited = backoff_.check(Deadline::Clock::now());
  if (!waited) return;
  logWarn(Subsystem::kColl, "job {:016x}: {} has made no progress for {} s; {}", calls.job,
          describe(calls.active.front()->call), waited->count(), waitsText(calls));
}

void CallWatchdog::dump(const CallsInFlight& calls) const {
  const std::chrono::duration<double> waited = backoff_.waited(Deadline::Clock::now());
  const std::string progress = calls.active.empty() ? "" : fmt::format("; no progress for {:.1f} s", waited.count());
  dumpLine("job {:016x}, rank {}: calls in flight: {}, queued: {}{}", calls.job, calls.rank, calls.active.size(),
           calls.queued, progress);
  size_t dumped = 0;
  for (const auto& call : calls.active) {
    if (dumped++ == kMaxDumpedCalls) break;
    dumpCall(*call);
  }
  if (calls.active.size() > kMaxDumpedCalls) dumpLine("  {} more calls", calls.active.size() - kMaxDumpedCalls);
  if (calls.active.empty()) return;
  if (calls.copying) dumpLine("  a copy to or from a GPU is in flight");
  for (const PeerWait& wait : calls.peerWaits()) dumpPeer(wait);
}

}  // namespace bps
