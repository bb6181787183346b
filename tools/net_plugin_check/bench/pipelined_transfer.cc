#include "tools/net_plugin_check/bench/pipelined_transfer.h"

#include <poll.h>

#include <thread>

namespace bps::check {

Result<bool> PipelinedTransfer::post() {
  void*& request = requests_[posted_ % kInFlight];
  const MessageBuffer piece{buffer_.data() + posted_ % kInFlight * bytes_, bytes_, 0, buffer_.memory()};
  request = nullptr;
  Table& table = side_.table();
  const int code = sends_ ? table.isend(comm_, piece, &request) : table.irecv(comm_, {&piece, 1}, &request);
  if (code != abi::kSuccess) return side_.expect(code, sends_ ? Call::kIsend : Call::kIrecv);
  if (request != nullptr) ++posted_;
  return request != nullptr;
}

Result<bool> PipelinedTransfer::test() {
  int isDone = 0, bytes = 0;
  const int code = side_.table().test(requests_[done_ % kInFlight], &isDone, &bytes);
  if (code != abi::kSuccess) return side_.expect(code, Call::kTest);
  done_ += isDone != 0 ? 1 : 0;
  return isDone != 0;
}

Result<bool> PipelinedTransfer::step() {
  const size_t before = posted_ + done_;
  while (posted_ < count_ && posted_ < done_ + kInFlight)
    if (!BPS_TRY(post())) break;
  while (done_ < posted_)
    if (!BPS_TRY(test())) break;
  return posted_ + done_ != before;
}

Status Idle::operator()(std::span<PipelinedTransfer* const> transfers) {
  if (wait_ == nullptr) {
    std::this_thread::yield();
    return {};
  }
  std::array<pollfd, 4> sleepers{};
  size_t count = 0;
  for (const PipelinedTransfer* transfer : transfers) {
    if (transfer->done()) continue;
    int ready = 0, fd = -1;
    if (wait_->waitFd(transfer->comm(), &fd) != 0 || wait_->arm(transfer->comm(), &ready) != 0)
      return {Code::kSystem, "bpsNetWait failed"};
    if (ready != 0) return {};
    sleepers[count++] = {.fd = fd, .events = POLLIN, .revents = 0};
  }
  ::poll(sleepers.data(), count, 1000);
  return {};
}

Status drive(Side& side, std::span<PipelinedTransfer* const> transfers, Idle idle) {
  Deadline deadline = side.makeDeadline();
  for (unsigned dry = 0;;) {
    bool moved = false, done = true;
    for (PipelinedTransfer* transfer : transfers) {
      moved = BPS_TRY(transfer->step()) || moved;
      done = done && transfer->done();
    }
    if (done) return {};
    if (moved) {
      dry = 0;
      continue;
    }
    BPS_TRY(idle(transfers));
    if (++dry == 1) deadline = side.makeDeadline();
    if (dry % 1024 == 0 && deadline.passed())
      return failure(Code::kTimeout, "no message completed within {} s", side.options().timeoutSeconds);
  }
}

}  // namespace bps::check
