#include "src/service/sum_service.h"

#include <algorithm>
#include <cstring>

#include "src/base/checksum/crc32c.h"
#include "src/base/format.h"
#include "src/plan/constants.h"

namespace bps {

Result<std::unique_ptr<SumService>> SumService::create(ServiceSpec spec, std::vector<Lane> lanes) {
  std::unique_ptr<SumService> service(new SumService(std::move(spec)));
  ServiceSpec& s = service->spec_;
  if (s.order.empty())
    for (size_t m = 0; m < s.machines; ++m) s.order.push_back(m);
  service->results_ = BPS_TRY(PageBuffer::create(s.depth * s.maxChunkBytes));
  s.summed.resize(s.machines);
  service->inbound_.resize(s.machines);
  service->answers_.resize(s.machines);
  for (size_t m = 0; m < s.machines; ++m) {
    if (s.local == m) continue;
    service->inbound_[m] =
        BPS_TRY(ContributionReceiver::create(std::move(lanes[m].push), {s.depth, s.maxChunkBytes, s.checksum}));
    service->answers_[m] = BPS_TRY(AnswerSender::create(std::move(lanes[m].answer), s.depth, service->results_));
  }
  service->wantPushes();
  return service;
}

void SumService::offer(const LocalChunk& chunk) {
  local_.push_back(chunk);
  if (spec_.recorder)
    spec_.recorder.at(*spec_.local).add(trace::Stage::kArrived, chunk.call.number, offered_, chunk.bytes);
  ++offered_;
  wantPushes();
}

// Until this machine has contributed, no round can be summed, whatever the other machines send.
// Their data can wait in the connections. Threads that wait for another owner's answer then need
// not test these connections.
void SumService::wantPushes() {
  const bool wanted = !spec_.local || !local_.empty();
  if (wanted == wantsPushes_) return;
  wantsPushes_ = wanted;
  for (auto& lane : inbound_)
    if (lane != nullptr) lane->comm().setNeeded(wanted);
}

// True if the calls of all machines can be compared. The comment in sum_service.h says when.
bool SumService::comparable() const {
  const CallInfo first = contribution(0).call;
  for (size_t m = 1; m < spec_.machines; ++m)
    if (!contribution(m).call.samePosition(first)) return false;
  return true;
}

Result<bool> SumService::stepRound() {
  for (size_t m = 0; m < spec_.machines; ++m)
    if (!contributed(m)) return false;
  if (!comparable() || !resultSlotFree()) return false;
  for (size_t m = 0; m < spec_.machines; ++m) {
    round_[m] = contribution(m);
    round_[m].summed = spec_.summed[m];
  }
  BPS_TRY(checkRound(round_, spec_.nameOf));
  sumRound();
  return true;
}

bool SumService::resultSlotFree() const { return summed_ - answeredByAll() < spec_.depth; }

uint64_t SumService::answeredByAll() const {
  uint64_t least = summed_;
  for (const auto& lane : answers_)
    if (lane != nullptr) least = std::min(least, lane->done());
  return least;
}

uint64_t SumService::retired() {
  for (; !retireAfterAnswer_.empty() && retireAfterAnswer_.front() <= answeredByAll(); retireAfterAnswer_.pop_front())
    ++retired_;
  return retired_;
}

// A small sum is copied to the local machine's target, because a wait for the end of the answers
// takes longer. A transport that needs registered memory can send only from the result slots.
bool SumService::answersFromTarget() const {
  if (!spec_.local || local_.front().bytes <= constants::kMaxCopiedBytes) return false;
  return std::none_of(answers_.begin(), answers_.end(),
                      [](const auto& lane) { return lane != nullptr && lane->needsRegistered(); });
}

Contribution SumService::contribution(size_t machine) const {
  if (inbound_[machine]) return inbound_[machine]->contribution(summed_);
  const LocalChunk& local = local_.front();
  return {local.call, local.source, local.bytes};
}

void SumService::sumRound() {
  const size_t bytes = round_[0].bytes;
  const bool inPlace = answersFromTarget();
  uint8_t* result = inPlace ? static_cast<uint8_t*>(local_.front().target) : resultSlot();
  if (spec_.recorder) spec_.recorder.add(trace::Stage::kSumBegun, round_[0].call.number, summed_, bytes);
  sum_.run(round_, result);
  if (spec_.recorder) spec_.recorder.add(trace::Stage::kSummed, round_[0].call.number, summed_, bytes);
  std::optional<uint32_t> checksum;
  if (spec_.checksum) checksum = crc32c(result, bytes);
  for (auto& lane : answers_)
    if (lane != nullptr) lane->push(result, bytes, checksum);
  bytesSummed_ += bytes * spec_.machines;
  ++summed_;
  if (!spec_.local) return;
  if (!inPlace && bytes > 0) std::memcpy(local_.front().target, result, bytes);
  retireAfterAnswer_.push_back(inPlace ? summed_ : 0);
  local_.pop_front();
  wantPushes();
}

Result<bool> SumService::step() {
  bool moved = false;
  for (size_t m = 0; m < spec_.machines; ++m) {
    if (!inbound_[m]) continue;
    failedMachine_ = m;
    const uint64_t before = inbound_[m]->arrived();
    const bool received = BPS_TRY(inbound_[m]->step(summed_));
    if (spec_.recorder) recordArrivals(m, before);
    moved = moved || received;
  }
  failedMachine_.reset();
  if (moved) measureWaits();
  // Each step sums only one round. The answers of that round are sent to all machines before the
  // answers of the next round.
  const bool summed = BPS_TRY(stepRound());
  if (summed) measureWaits();
  moved = moved || summed;
  for (const size_t m : spec_.order) {
    if (!answers_[m]) continue;
    failedMachine_ = m;
    const uint64_t before = answers_[m]->done();
    const bool sent = BPS_TRY(answers_[m]->step());
    if (spec_.recorder) recordAnswers(m, before);
    moved = moved || sent;
  }
  failedMachine_.reset();
  return moved;
}

void SumService::recordArrivals(size_t machine, uint64_t before) const {
  for (uint64_t round = before; round < inbound_[machine]->arrived(); ++round) {
    const Contribution& contribution = inbound_[machine]->contribution(round);
    spec_.recorder.at(machine).add(trace::Stage::kArrived, contribution.call.number, round, contribution.bytes);
  }
}

// The call and the size of the chunk are no longer known here. Its other events have them.
void SumService::recordAnswers(size_t machine, uint64_t before) const {
  for (uint64_t round = before; round < answers_[machine]->done(); ++round)
    spec_.recorder.at(machine).add(trace::Stage::kAnswered, 0, round, 0);
}

bool SumService::drained() const {
  return std::all_of(answers_.begin(), answers_.end(),
                     [](const auto& lane) { return lane == nullptr || lane->done() == lane->pushed(); });
}

bool SumService::active() const {
  for (size_t m = 0; m < spec_.machines; ++m)
    if (contributed(m)) return true;
  return !drained();
}

ServiceCounters SumService::counters() const {
  ServiceCounters counters;
  counters.bytesSummed = bytesSummed_;
  counters.rounds = summed_;
  for (size_t m = 0; m < spec_.machines; ++m) {
    counters.queued += contributions(m) - summed_;
    if (inbound_[m] != nullptr) counters.bytesReceived += inbound_[m]->bytesReceived();
    if (answers_[m] == nullptr) continue;
    counters.bytesSent += answers_[m]->bytesPushed();
    counters.unsent += answers_[m]->pushed() - answers_[m]->done();
  }
  return counters;
}

std::optional<EndpointWait> SumService::checkWait() {
  size_t present = spec_.machines, missing = spec_.machines;
  for (size_t m = spec_.machines; m-- > 0;) (contributed(m) ? present : missing) = m;
  const bool waiting = present < spec_.machines && missing < spec_.machines;
  if (!waiting || watchedRound_ != summed_) {
    watchedRound_ = summed_;
    waitsSince_.reset();
  }
  if (!waiting) return {};
  const auto now = Deadline::Clock::now();
  if (!waitsSince_) waitsSince_ = now;
  if (now - *waitsSince_ < spec_.waitReportTime) return {};
  return EndpointWait{contribution(present).call.number, missing};
}

std::vector<CallInfo> SumService::pendingCalls() const {
  size_t furthest = 0;
  for (size_t m = 1; m < spec_.machines; ++m)
    if (contributions(m) > contributions(furthest)) furthest = m;
  std::vector<CallInfo> calls;
  for (uint64_t round = summed_; round < contributions(furthest) && calls.size() < kMaxPendingCalls; ++round) {
    const CallInfo& call =
        inbound_[furthest] ? inbound_[furthest]->contribution(round).call : local_[round - summed_].call;
    if (calls.empty() || calls.back().number != call.number) calls.push_back(call);
  }
  return calls;
}

void SumService::addPeerWaits(std::vector<PeerWait>& waits) const {
  uint64_t furthest = summed_;
  for (size_t m = 0; m < spec_.machines; ++m) furthest = std::max(furthest, contributions(m));
  for (size_t m = 0; m < spec_.machines; ++m) {
    const uint64_t unsent = answers_[m] != nullptr ? answers_[m]->pushed() - answers_[m]->done() : 0;
    if (m == spec_.local || (furthest == summed_ && unsent == 0)) continue;
    const uint64_t missing = contributed(m) ? 0 : furthest - summed_;
    waits.push_back({spec_.nameOf(m), PeerWait::Data::kContribution, missing, unsent});
  }
}

void SumService::forEachComm(const std::function<void(net::Comm&)>& use) {
  for (auto& lane : inbound_)
    if (lane != nullptr) use(lane->comm());
  for (auto& lane : answers_)
    if (lane != nullptr) use(lane->comm());
}

}  // namespace bps
