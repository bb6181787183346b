#include "src/net/message_queue.h"

namespace bps::net {

Result<bool> MessageQueue::post() {
  bool moved = false;
  while (!waiting_.empty() && posted_.size() < static_cast<size_t>(comm_->maxRequests())) {
    const Message& next = waiting_.front();
    const Request request = direction_ == Direction::kSend ? BPS_TRY(comm_->isend(next.data, next.bytes, next.memory))
                                                           : BPS_TRY(comm_->irecv(next.data, next.bytes, next.memory));
    if (!request) break;
    posted_.push_back({request, next.bytes});
    waiting_.pop_front();
    moved = true;
  }
  return moved;
}

Result<bool> MessageQueue::complete() {
  bool moved = false;
  while (!posted_.empty() && comm_->awake()) {
    const Completion completion = BPS_TRY(comm_->test(posted_.front().request));
    if (!completion.done) break;
    if (direction_ == Direction::kReceive) {
      received_.push_back(completion.bytes);
      comm_->noteReceived(completion.bytes);
    }
    posted_.pop_front();
    ++done_;
    moved = true;
  }
  return moved;
}

bool MessageQueue::move() {
  bool moved = false;
  for (auto operation : {&MessageQueue::post, &MessageQueue::complete}) {
    if (!failure_.ok()) break;
    Result<bool> outcome = (this->*operation)();
    if (outcome.ok()) moved = std::move(outcome).value() || moved;
    else fail(std::move(outcome).status());
  }
  return moved;
}

void MessageQueue::fail(Status why) {
  failure_ = std::move(why);
  comm_->markFailed();
}

size_t MessageQueue::takeReceivedBytes() {
  const size_t bytes = received_.front();
  received_.pop_front();
  return bytes;
}

}  // namespace bps::net
