// Poller: sends or receives one buffer repeatedly over one end of a connection. Like NCCL's
// threads, it repeats a post until the post succeeds, and then polls the request without pause.
// Used by one thread.
#pragma once
#include <thread>

#include "tools/net_plugin_check/flow.h"

namespace bps::check {

class Poller {
 public:
  Poller(Side& side, void* comm, bool sends, MessageBuffer piece)
      : side_(side), comm_(comm), sends_(sends), piece_(piece) {}

  Result<bool> post() {
    if (request_ != nullptr) return true;
    Table& table = side_.table();
    const int code = sends_ ? table.isend(comm_, piece_, &request_) : table.irecv(comm_, {&piece_, 1}, &request_);
    if (code != abi::kSuccess) return side_.expect(code, sends_ ? Call::kIsend : Call::kIrecv);
    return request_ != nullptr;
  }
  Result<bool> test() {
    if (!BPS_TRY(post())) return false;
    int done = 0, bytes = 0;
    const int code = side_.table().test(request_, &done, &bytes);
    if (code != abi::kSuccess) return side_.expect(code, Call::kTest);
    if (done != 0) request_ = nullptr;
    return done != 0;
  }
  Status finish() {
    const Deadline deadline = side_.makeDeadline();
    for (unsigned rounds = 0; !BPS_TRY(test()); ++rounds) {
      std::this_thread::yield();
      if (rounds % 1024 == 1023 && deadline.passed())
        return failure(Code::kTimeout, "a message did not complete within {} s", side_.options().timeoutSeconds);
    }
    return {};
  }

 private:
  Side& side_;
  void* comm_;
  bool sends_;
  MessageBuffer piece_;
  void* request_ = nullptr;
};

}  // namespace bps::check
