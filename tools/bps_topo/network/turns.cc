#include "tools/bps_topo/network/turns.h"

#include <algorithm>
#include <bit>

#include "src/base/format.h"

namespace bps {
namespace {

// So many that the first and the last, which the measure cuts off, are few of them.
constexpr uint64_t kMessagesPerTurn = 256;
constexpr std::chrono::milliseconds kLook(20);

}  // namespace

Status Turns::prepare() {
  buffer_ = std::make_unique<uint8_t[]>(kMostUnderWay * kMostMessage);
  memory_ = BPS_TRY(comm_->registerMemory(buffer_.get(), kMostUnderWay * kMostMessage));
  most_ = std::clamp<size_t>(static_cast<size_t>(std::max(comm_->maxRequests(), 1)), 1, kMostUnderWay);
  bell_ = BPS_TRY(Doorbell::create());  // nobody rings; the waiter wants one
  waiter_ = BPS_TRY(net::Waiter::create(*bell_));
  return waiter_->add(*comm_);
}

void Turns::posted(net::Request request) {
  underWay_.push_back(request);
  ++posted_;
}

Result<net::Completion> Turns::oldest() {
  if (underWay_.empty()) return net::Completion{};
  const net::Completion completion = BPS_TRY(comm_->test(underWay_.front()));
  if (completion.done) {
    underWay_.pop_front();
    waiter_->noteProgress();
  }
  return completion;
}

Status Turns::pause(Deadline deadline) {
  if (deadline.passed()) return {Code::kRemote, "the other side moves nothing any more, or too slowly"};
  BPS_TRY(look_());
  return waiter_->sleep(kLook);
}

Result<std::unique_ptr<SendTurns>> SendTurns::create(std::unique_ptr<net::Comm> comm, Look look) {
  std::unique_ptr<SendTurns> turns(new SendTurns(std::move(comm), std::move(look)));
  BPS_TRY(turns->prepare());
  return turns;
}

Status SendTurns::reap() {
  while (BPS_TRY(oldest()).done) continue;
  return {};
}

Status SendTurns::post(size_t bytes, Deadline deadline) {
  while (true) {
    BPS_TRY(reap());
    if (!full()) {
      const net::Request request = BPS_TRY(comm_->isend(place(), bytes, memory_));
      if (request) {
        posted(request);
        return {};
      }
    }
    BPS_TRY(pause(deadline));
  }
}

Status SendTurns::turn(std::chrono::milliseconds time, Deadline deadline) {
  const Deadline end = Deadline::in(time);
  uint64_t bytes = 0;
  for (; !end.passed(); bytes += message_) BPS_TRY(post(message_, deadline));
  BPS_TRY(post(kEndBytes, deadline));
  while (!underWay_.empty()) {
    BPS_TRY(reap());
    if (!underWay_.empty()) BPS_TRY(pause(deadline));
  }
  message_ = std::clamp<size_t>(std::bit_floor(bytes / kMessagesPerTurn), kLeastMessage, kMostMessage);
  return {};
}

Result<std::unique_ptr<ReceiveTurns>> ReceiveTurns::create(std::unique_ptr<net::Comm> comm, Look look) {
  std::unique_ptr<ReceiveTurns> turns(new ReceiveTurns(std::move(comm), std::move(look)));
  BPS_TRY(turns->prepare());
  return turns;
}

Status ReceiveTurns::fill() {
  while (!full()) {
    const net::Request request = BPS_TRY(comm_->irecv(place(), kMostMessage, memory_));
    if (!request) return {};
    posted(request);
  }
  return {};
}

Result<double> ReceiveTurns::turn(Deadline deadline) {
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
  if (bytes == 0 || took.count() <= 0) return Status(Code::kRemote, "too little came to tell a rate");
  return static_cast<double>(bytes) / took.count();
}

}  // namespace bps
