// Side: one of the two ends of a rule, in its process or thread: a plugin with a context, the channel to the other
// side, and what the rules have in common. One side receives (listens, accepts), the other sends (connects).
//
// A rule's body runs on both sides; it is one function that asks sends(). It fails with a Status: kRemote means only
// that the other side is gone, which then has the reason; kInProgress means skipped; kSystem is an error of the plugin.
#pragma once
#include <array>
#include <functional>
#include <string>
#include <vector>

#include "src/base/deadline.h"
#include "src/base/format.h"
#include "src/base/io/fd.h"
#include "src/base/io/wire_io.h"
#include "tools/net_plugin_check/table.h"

namespace bps::check {

struct CheckOptions {
  std::string plugin;
  int newestAbi = kNewestAbi;
  int device = -1;  // all
  bool threads = false, verbose = false, list = false;
  std::vector<std::string> only;
  std::string json;
  size_t cycles = 1000;
  size_t maxBytes = size_t{64} << 20;
  double timeoutSeconds = 10;  // of every wait
  double noticeSeconds = 1;    // from a peer's end to the error
  size_t bench = 0;            // times; 0: check the rules
  std::string against = "tcp";
  size_t plainSockets = 1;
  size_t benchBytes = size_t{4} << 20;
  double benchSeconds = 1;
  std::string senderNetns;  // where the sender runs; empty: here
};

// No call may wait for the peer: one that takes longer than this has, or the machine is hopelessly busy.
inline constexpr int64_t kMaxCallNs = 500'000'000;

// The caller's 128 bytes, with bytes behind them that a plugin may not touch.
class HandleBox {
 public:
  HandleBox();
  explicit HandleBox(std::span<const uint8_t> bytes);
  void* data() { return bytes_.data(); }
  std::span<const uint8_t> bytes() const { return std::span(bytes_).first(abi::kHandleBytes); }
  Status checkGuard() const;
  void scribble() { bytes_.fill(0xdd); }

 private:
  alignas(16) std::array<uint8_t, abi::kHandleBytes + 64> bytes_;
};

class Side {
 public:
  Side(const CheckOptions& options, int device, bool sends, UniqueFd channel, SideRecord* records);

  bool sends() const { return sends_; }
  const CheckOptions& options() const { return options_; }
  int device() const { return device_; }
  Table& table() { return *table_; }
  void* context() const { return context_; }
  SideRecord& record() { return records_[sends_ ? 1 : 0]; }
  int peerPid() const { return records_[sends_ ? 0 : 1].pid.load(); }
  const std::string& description() const { return description_; }
  int deviceCount() const { return deviceCount_; }

  // Loads the plugin and initialises it. Fails when it has no such device.
  Status open();
  Status closePlugin();

  // To and from the other side, in order.
  Status sendToPeer(std::span<const uint8_t> what = {});
  Result<Blob> receiveFromPeer();
  Status barrier();

  // Opens `n` connections from the sender to the receiver at the same time, as NCCL does: one listener each.
  Result<std::vector<void*>> connect(size_t n);
  Result<void*> connectOne();
  // A connection in the opposite direction: the sender accepts.
  Result<void*> connectBack();
  // The single steps of it.
  Result<void*> listenFor(HandleBox& handle);
  Result<void*> acceptFrom(void* listener);    // null: not yet
  Result<void*> connectTo(HandleBox& handle);  // null: not yet
  Status closeListener(void* listener);
  Status close(void* comm) { return closeEnd(comm, sends_); }
  Status closeEnd(void* comm, bool sends);

  // Until `step` is done. Fails with kTimeout, naming `what`.
  Status wait(const std::string& what, const std::function<Result<Progress>()>& step);
  Deadline makeDeadline() const;

  // The outcome of a call, with what the plugin warned of.
  Status expect(int code, Call call);
  // Whether none of the calls so far took too long.
  Status checkLongest(std::initializer_list<Call> calls);
  // "accept at most 0.02 ms".
  std::string longest(Call call);

  void measure(const char* name, double value);

 private:
  Status stepAll(std::vector<void*>& comms, const std::function<Result<void*>(size_t)>& attempt);

  const CheckOptions& options_;
  const int device_;
  const bool sends_;
  UniqueFd channel_;
  SideRecord* records_;
  std::unique_ptr<Table> table_;
  std::string description_;
  void* context_ = nullptr;
  int deviceCount_ = 0;
  size_t measures_ = 0;
};

// Something between two attempts: yields at first, then sleeps a little.
class Backoff {
 public:
  void operator()();
  void reset() { attempts_ = 0; }

 private:
  unsigned attempts_ = 0;
};

std::string milliseconds(int64_t ns);
Status skipped(const std::string& why);

}  // namespace bps::check
