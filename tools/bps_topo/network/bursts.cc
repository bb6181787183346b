#include "tools/bps_topo/network/bursts.h"

#include <algorithm>
#include <bit>

#include "src/base/format.h"

namespace bps {
namespace {

// The number of messages in a burst. With so many messages, it hardly matters that the measurement
// excludes the first and the last message.
constexpr uint64_t kMessagesPerBurst = 256;
constexpr std::chrono::milliseconds kAbortCheckInterval(20);

}  // namespace

Status BurstBase::prepare() {
  buffer_ = std::make_unique<uint8_t[]>(kMaxInFlight * kMaxMessageBytes);
  memory_ = BPS_TRY(comm_->registerMemory(buffer_.get(), kMaxInFlight * kMaxMessageBytes));
  maxInFlight_ = std::clamp<size_t>(static_cast<size_t>(std::max(comm_->maxRequests(), 1)), 1, kMaxInFlight);
  bell_ = BPS_TRY(Doorbell::create());  // the doorbell is never rung, but the waiter requires one
  waiter_ = BPS_TRY(net::Waiter::create(*bell_));
  return waiter_->add(*comm_);
}

void BurstBase::posted(net::Request request) {
  inFlight_.push_back(request);
  ++posted_;
}

Result<net::Completion> BurstBase::oldest() {
  if (inFlight_.empty()) return net::Completion{};
  const net::Completion completion = BPS_TRY(comm_->test(inFlight_.front()));
  if (completion.done) {
    inFlight_.pop_front();
    waiter_->noteProgress();
  }
  return completion;
}

Status BurstBase::pause(Deadline deadline) {
  if (deadline.passed())
    return {Code::kRemote, "the data connection makes no progress, or too little before the timeout"};
  BPS_TRY(abortCheck_());
  return waiter_->sleep(kAbortCheckInterval);
}

Result<std::unique_ptr<BurstSender>> BurstSender::create(std::unique_ptr<net::Comm> comm, AbortCheck look) {
  std::unique_ptr<BurstSender> turns(new BurstSender(std::move(comm), std::move(look)));
  BPS_TRY(turns->prepare());
  return turns;
}

Status BurstSender::reap() {
  while (BPS_TRY(oldest()).done) continue;
  return {};
}

Status BurstSender::post(size_t bytes, Deadline deadline) {
  while (true) {
    BPS_TRY(reap());
    if (!full()) {
      const net::Request request = BPS_TRY(comm_->isend(nextBuffer(), bytes, memory_));
      if (request) {
        posted(request);
        return {};
      }
    }
    BPS_TRY(pause(deadline));
  }
}

Status BurstSender::burst(std::chrono::milliseconds time, Deadline deadline) {
  const Deadline end = Deadline::in(time);
  uint64_t bytes = 0;
  for (; !end.passed(); bytes += message_) BPS_TRY(post(message_, deadline));
  BPS_TRY(post(kEndBytes, deadline));
  while (!inFlight_.empty()) {
    BPS_TRY(reap());
    if (!inFlight_.empty()) BPS_TRY(pause(deadline));
  }
  message_ = std::clamp<size_t>(std::bit_floor(bytes / kMessagesPerBurst), kMinMessageBytes, kMaxMessageBytes);
  return {};
}

Result<std::unique_ptr<BurstReceiver>> BurstReceiver::create(std::unique_ptr<net::Comm> comm, AbortCheck look) {
  std::unique_ptr<BurstReceiver> turns(new BurstReceiver(std::move(comm), std::move(look)));
  BPS_TRY(turns->prepare());
  return turns;
}

Status BurstReceiver::fill() {
  while (!full()) {
    const net::Request request = BPS_TRY(comm_->irecv(nextBuffer(), kMaxMessageBytes, memory_));
    if (!request) return {};
    posted(request);
  }
  return {};
}

Result<double> BurstReceiver::burst(Deadline deadline) {
  uint64_t messages = 0, bytes = 0;
  Deadline::Clock::time_point first, last;
  while (true) {
    BPS_TRY(fill());
    const net::Completion completion = BPS_TRY(oldest());
    if (!completion.done || deadline.passed()) {
      BPS_TRY(pause(deadline));
      continue;
    }
    if (completion.bytes == kEndBytes) break;
    last = Deadline::Clock::now();
    if (messages++ == 0) first = last;
    else bytes += completion.bytes;
  }
  const std::chrono::duration<double> took = last - first;
  if (bytes == 0 || took.count() <= 0) return Status(Code::kRemote, "received too few messages to compute a rate");
  return static_cast<double>(bytes) / took.count();
}

}  // namespace bps
