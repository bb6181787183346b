// Side: one of the two sides on which a rule runs, each in a separate process or thread. A Side has
// the plugin's context, the channel to the other side, and the functions that the rules share.
//
// The receiving side listens and accepts, and the sending side connects. The same rule body runs on
// both sides and checks sends(). If a Status has failed, its code tells the kind of failure. The
// code kRemote means that the other side has ended and knows the reason. The code kInProgress means
// that the rule is skipped. The code kSystem means that the plugin returned an error.
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
  int device = -1;  // -1 means all devices
  bool threads = false, verbose = false, list = false;
  std::vector<std::string> only;
  std::string json;
  size_t cycles = 1000;
  size_t maxBytes = size_t{64} << 20;
  double timeoutSeconds = 10;  // time limit of every wait
  double noticeSeconds = 1;    // time limit from the end of one side to the error on the other side
  size_t bench = 0;            // number of repetitions; with 0, the tool checks the rules
  std::string against = "tcp";
  size_t plainSockets = 1;
  size_t benchBytes = size_t{4} << 20;
  double benchSeconds = 1;
  std::string senderNetns;  // network namespace of the sender; empty for the current namespace
};

// The time limit of a call. No call may wait for the peer. If a call takes longer than this limit,
// it has waited, or the machine is overloaded.
inline constexpr int64_t kMaxCallNs = 500'000'000;

// A handle of 128 bytes, followed by guard bytes that the plugin must not write.
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

  Result<DeviceProperties> deviceProperties();  // the properties of device()

  // Loads and initialises the plugin. Fails if the device does not exist.
  Status open();
  Status closePlugin();

  // Send and receive messages on the channel to the other side. The channel keeps the order of
  // messages.
  Status sendToPeer(std::span<const uint8_t> what = {});
  Result<Blob> receiveFromPeer();
  Status barrier();

  // Opens `n` connections from the sender to the receiver at the same time. As in NCCL, each
  // connection has a listener.
  Result<std::vector<void*>> connect(size_t n);
  Result<void*> connectOne();
  // Opens a connection in the opposite direction, in which the sender accepts.
  Result<void*> connectBack();
  // The single steps of connect().
  Result<void*> listenFor(HandleBox& handle);
  Result<void*> acceptFrom(void* listener);    // null if no connection is ready yet
  Result<void*> connectTo(HandleBox& handle);  // null if the connection is not yet made
  Status closeListener(void* listener);
  Status close(void* comm) { return closeEnd(comm, sends_); }
  Status closeEnd(void* comm, bool sends);

  // Calls `step` until it is done. After the timeout, fails with kTimeout and a text that begins
  // with `what`.
  Status wait(const std::string& what, const std::function<Result<Progress>()>& step);
  // Tests the request until it is done. `sizes` has the same meaning as in test.
  Status waitForRequest(const std::string& what, void* request, int* sizes = nullptr);
  Deadline makeDeadline() const;

  // Converts the result of a call to a Status. A failure includes the last warning of the plugin.
  Status expect(int code, Call call);
  // Fails if one of these calls has so far taken longer than kMaxCallNs.
  Status checkLongest(std::initializer_list<Call> calls);
  // Returns the longest duration of a call as text, such as "accept at most 0.02 ms".
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

// The pause between two attempts. The first pauses only yield the CPU, and later pauses sleep for a
// short time.
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
