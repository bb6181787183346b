#include "tools/net_plugin_check/flow.h"

#include <numeric>

namespace bps::check {
namespace {

constexpr size_t kPage = 4096, kGuardBytes = 64;
constexpr uint8_t kGuard = 0xc3;

uint64_t wordOf(uint64_t seed, uint64_t index) {
  const uint64_t x = (seed * 0x9e3779b97f4a7c15ULL + index + 1) * 0xbf58476d1ce4e5b9ULL;
  return x ^ (x >> 29);
}

}  // namespace

void fillPattern(uint8_t* to, size_t bytes, uint64_t seed) {
  for (size_t at = 0; at < bytes; at += sizeof(uint64_t)) {
    const uint64_t word = wordOf(seed, at);
    std::memcpy(to + at, &word, std::min(sizeof word, bytes - at));
  }
}

bool hasPattern(const uint8_t* from, size_t bytes, uint64_t seed) {
  for (size_t at = 0; at < bytes; at += sizeof(uint64_t)) {
    const uint64_t word = wordOf(seed, at);
    if (std::memcmp(from + at, &word, std::min(sizeof word, bytes - at)) != 0) return false;
  }
  return true;
}

Result<Buffer> Buffer::create(Side& side, void* comm, size_t bytes) {
  Buffer buffer;
  const size_t whole = (std::max<size_t>(bytes, 1) + kPage - 1) / kPage * kPage;
  buffer.bytes_.reset(static_cast<uint8_t*>(std::aligned_alloc(kPage, whole)));
  if (!buffer.bytes_) return failure(Code::kInvalidUsage, "out of memory: {} bytes", bytes);
  std::memset(buffer.bytes_.get(), 0, whole);
  BPS_TRY(side.expect(side.table().regMr(comm, buffer.data(), whole, &buffer.memory_), Call::kRegMr));
  return buffer;
}

Status Buffer::release(Side& side, void* comm) {
  return side.expect(side.table().deregMr(comm, memory_), Call::kDeregMr);
}

Flow::Flow(Side& side, void* comm, bool sends, FlowPlan plan)
    : side_(&side), comm_(comm), sends_(sends), plan_(std::move(plan)) {
  for (const Message& message : plan_.messages) slotBytes_ = std::max(slotBytes_, message.bytes + message.extraRoom);
  slotBytes_ = (slotBytes_ + plan_.offset + kGuardBytes + 63) / 64 * 64;
}

Result<Flow> Flow::create(Side& side, void* comm, bool sends, FlowPlan plan) {
  Flow flow(side, comm, sends, std::move(plan));
  flow.buffer_ = BPS_TRY(Buffer::create(side, comm, flow.slotBytes_ * flow.plan_.window));
  return flow;
}

uint8_t* Flow::place(size_t index) const { return buffer_.data() + index % plan_.window * slotBytes_ + plan_.offset; }

// Posts the next message. Returns false if the plugin cannot post the message at present.
Result<bool> Flow::postOne() {
  const Message& message = plan_.messages[posted_];
  const uint64_t seed = plan_.seed + posted_;
  const size_t room = message.bytes + (sends_ ? 0 : message.extraRoom);
  const MessageBuffer piece{place(posted_), room, static_cast<int>(seed % 1000), buffer_.memory()};
  if (sends_) fillPattern(place(posted_), room, seed);
  else std::memset(place(posted_) + room, kGuard, kGuardBytes);
  auto* request = reinterpret_cast<void*>(plan_.stale);
  const Call call = sends_ ? Call::kIsend : Call::kIrecv;
  BPS_TRY(side_->expect(
      sends_ ? side_->table().isend(comm_, piece, &request) : side_->table().irecv(comm_, {&piece, 1}, &request),
      call));
  if (plan_.checkStale && reinterpret_cast<uintptr_t>(request) == plan_.stale)
    return failure(Code::kInternal, "{} did not write *request (message {})", nameOf(call), posted_);
  if (request == nullptr) return false;
  requests_.push_back(request);
  ++posted_;
  return true;
}

Result<Progress> Flow::post() {
  while (posted_ < plan_.messages.size() && requests_.size() < plan_.window)
    if (!BPS_TRY(postOne())) return Progress::kPending;
  return Progress::kDone;
}

Status Flow::finish(size_t bytes) {
  const Message& message = plan_.messages[finished_];
  const uint64_t seed = plan_.seed + finished_;
  uint8_t* at = place(finished_);
  if (sends_) return {};
  if (bytes != message.bytes)
    return failure(Code::kInternal, "test reported {} bytes for message {}, expected {}", static_cast<int>(bytes),
                   finished_, message.bytes);
  if (!hasPattern(at, message.bytes, seed))
    return failure(Code::kInternal, "message {} of {} bytes arrived with wrong data", finished_, message.bytes);
  for (size_t i = 0; i < kGuardBytes; ++i)
    if (at[message.bytes + message.extraRoom + i] != kGuard)
      return failure(Code::kInternal, "message {}: byte {} after the receive buffer of {} was written", finished_, i,
                     message.bytes + message.extraRoom);
  return {};
}

Result<Progress> Flow::step() {
  BPS_TRY(post());
  while (!requests_.empty()) {
    int done = 0, bytes = -1;
    BPS_TRY(side_->expect(side_->table().test(requests_.front(), &done, &bytes), Call::kTest));
    if (done == 0) return Progress::kPending;
    requests_.pop_front();
    BPS_TRY(finish(static_cast<size_t>(bytes)));
    ++finished_;
    BPS_TRY(post());
  }
  return finished_ == plan_.messages.size() ? Progress::kDone : Progress::kPending;
}

Status run(Side& side, std::span<Flow> flows) {
  const auto finished = [&] {
    return std::accumulate(flows.begin(), flows.end(), size_t{0},
                           [](size_t sum, const Flow& flow) { return sum + flow.finished(); });
  };
  size_t before = finished();
  Deadline deadline = side.makeDeadline();
  for (Backoff backoff;; backoff()) {
    bool done = true;
    for (Flow& flow : flows) done = BPS_TRY(flow.step()) == Progress::kDone && done;
    if (done) return {};
    const size_t now = finished();
    if (now != before) {
      backoff.reset();
      deadline = side.makeDeadline();
      before = now;
    }
    if (deadline.passed())
      return failure(Code::kTimeout, "message {} was not {} within {} s", now, side.sends() ? "sent" : "received",
                     side.options().timeoutSeconds);
  }
}

Status transfer(Side& side, void* comm, FlowPlan plan) {
  Flow flow = BPS_TRY(Flow::create(side, comm, side.sends(), std::move(plan)));
  BPS_TRY(run(side, {&flow, 1}));
  return flow.release();
}

}  // namespace bps::check
