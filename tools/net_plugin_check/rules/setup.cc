// Rules for loading a plugin, for its devices and contexts, and for opening and closing
// connections.
#include <set>
#include <thread>

#include "tools/net_plugin_check/flow.h"
#include "tools/net_plugin_check/rules/resource_usage.h"
#include "tools/net_plugin_check/rules/rules.h"

namespace bps::check {
namespace {

constexpr std::chrono::milliseconds kIdlePollTime{200};

FlowPlan smallPlan(uint64_t seed) { return {.messages = {{100}, {5000}}, .window = 2, .seed = seed}; }

// Calls `step` repeatedly for `time`, with pauses.
Status repeatFor(std::chrono::milliseconds time, const std::function<Status()>& step) {
  const Deadline until = Deadline::in(time);
  while (!until.passed()) {
    BPS_TRY(step());
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return {};
}

Result<std::string> init(Side& side) {
  return fmt::format("{}, {} device{}", side.description(), side.deviceCount(), side.deviceCount() == 1 ? "" : "s");
}

Status checkProperties(const Table& table, const DeviceProperties& device, std::set<std::string>& names) {
  const auto wrong = [](const char* what, auto value, const char* right) {
    return failure(Code::kInternal, "{} is {}, expected {}", what, value, right);
  };
  if (device.name.empty()) return {Code::kInternal, "the name is empty"};
  if (!names.insert(device.name).second) return wrong("name", device.name, "a unique name");
  if ((device.ptrSupport & abi::kPtrHost) == 0 || device.ptrSupport > 7)
    return wrong("ptrSupport", device.ptrSupport, "host memory (1), optionally with CUDA (2) and DMABUF (4)");
  if (device.ptrSupport > abi::kPtrHost && !table.canFlush())
    return wrong("iflush", "null", "a function, because ptrSupport has CUDA or DMABUF");
  if (device.speedMbps < 0) return wrong("speed", device.speedMbps, "Mbit/s, or 0: NCCL then assumes 10000");
  if (device.maxComms < 1) return wrong("maxComms", device.maxComms, "at least 1");
  if (device.maxRecvs < 1) return wrong("maxRecvs", device.maxRecvs, "at least 1");
  if (device.deviceType != 0) return wrong("netDeviceType", device.deviceType, "0 (host)");
  const int mostVirtual = table.version() >= 12 ? 8 : 4;
  if (device.virtualDevices < 1 || device.virtualDevices > mostVirtual)
    return wrong("vProps.ndevs", device.virtualDevices, "1, or the number of merged devices");
  constexpr size_t kCeiling = size_t{1} << 40;
  if (device.maxBytes < 1 || device.maxBytes > kCeiling) return wrong("maxP2pBytes", device.maxBytes, "1 to 2^40");
  if (device.maxCollBytes < 1 || device.maxCollBytes > kCeiling)
    return wrong("maxCollBytes", device.maxCollBytes, "1 to 2^40");
  return {};
}

Result<std::string> properties(Side& side) {
  std::set<std::string> names;
  std::string detail;
  for (int i = 0; i < side.deviceCount(); ++i) {
    DeviceProperties first, second;
    BPS_TRY(side.expect(side.table().getProperties(i, 0, first), Call::kGetProperties));
    BPS_TRY(checkProperties(side.table(), first, names).within(fmt::format("device {}", i)));
    BPS_TRY(side.expect(side.table().getProperties(i, 0x5a, second), Call::kGetProperties));
    if (const char* field = first.difference(second))
      return failure(Code::kInternal, "device {}: {} is not written, or differs between two calls", i, field);
    detail += fmt::format("{}{}: {} Mbit/s, maxComms {}, maxRecvs {}", i > 0 ? "; " : "", first.name, first.speedMbps,
                          first.maxComms, first.maxRecvs);
  }
  side.measure("devices", side.deviceCount());
  return detail;
}

// Opens and closes a listener in a context of the plugin.
Status listenIn(Side& side, void* context) {
  HandleBox handle;
  void* listener = nullptr;
  BPS_TRY(side.expect(side.table().listen(context, 0, handle.data(), &listener), Call::kListen));
  return side.closeListener(listener);
}

Status skipWithoutContexts(Side& side) {
  if (side.table().hasContexts()) return {};
  return skipped(fmt::format("version {} of the interface has no contexts", side.table().version()));
}

Result<std::string> contexts(Side& side) {
  BPS_TRY(skipWithoutContexts(side));
  void *first = nullptr, *second = nullptr;
  BPS_TRY(side.expect(side.table().init(&first), Call::kInit));
  BPS_TRY(side.expect(side.table().init(&second), Call::kInit));
  BPS_TRY(listenIn(side, first));
  BPS_TRY(side.expect(side.table().finalize(first), Call::kFinalize));
  BPS_TRY(listenIn(side, second).within("after the finalize of another context"));
  BPS_TRY(side.expect(side.table().finalize(second), Call::kFinalize));
  return std::string();
}

Result<std::string> finalizeAndInit(Side& side) {
  BPS_TRY(skipWithoutContexts(side));
  BPS_TRY(side.closePlugin());
  BPS_TRY(side.open().within("after finalize"));
  BPS_TRY(listenIn(side, side.context()));
  return std::string();
}

Result<std::string> finalizeTwice(Side& side) {
  BPS_TRY(skipWithoutContexts(side));
  void* context = nullptr;
  BPS_TRY(side.expect(side.table().init(&context), Call::kInit));
  BPS_TRY(side.expect(side.table().finalize(context), Call::kFinalize));
  return fmt::format("the second call returned {}", side.table().finalize(context));
}

// NCCL 2.28 and 2.29 call finalize with a null context after a failed init.
Result<std::string> finalizeNull(Side& side) {
  BPS_TRY(skipWithoutContexts(side));
  const int code = side.table().finalize(nullptr);
  BPS_TRY(listenIn(side, side.context()).within("after the finalize of null"));
  return fmt::format("returned {}", code);
}

Result<std::string> listen(Side& side) {
  std::set<Blob> handles;
  std::vector<void*> listeners;
  for (int i = 0; i < 16; ++i) {
    HandleBox handle;
    listeners.push_back(BPS_TRY(side.listenFor(handle)));
    if (!handles.insert(Blob(handle.bytes().begin(), handle.bytes().end())).second)
      return Status(Code::kInternal, "two open listeners have the same handle");
  }
  for (void* listener : listeners) BPS_TRY(side.closeListener(listener));
  BPS_TRY(side.checkLongest({Call::kListen, Call::kCloseListen}));
  return side.longest(Call::kListen);
}

Result<std::string> acceptPolled(Side& side) {
  HandleBox handle;
  void* listener = BPS_TRY(side.listenFor(handle));
  const auto poll = [&]() -> Status {
    if (BPS_TRY(side.acceptFrom(listener)) != nullptr)
      return {Code::kInternal, "accept returned a connection although no peer has connected"};
    return side.checkLongest({Call::kAccept});
  };
  BPS_TRY(repeatFor(kIdlePollTime, poll));
  BPS_TRY(side.closeListener(listener));
  return side.longest(Call::kAccept);
}

Result<std::string> connectPolled(Side& side) {
  HandleBox handle;
  void *listener = nullptr, *comm = nullptr;
  if (side.sends()) {
    handle = HandleBox(BPS_TRY(side.receiveFromPeer()));
    const auto poll = [&]() -> Status {
      if (comm == nullptr) comm = BPS_TRY(side.connectTo(handle));
      return {};
    };
    BPS_TRY(repeatFor(kIdlePollTime, poll));
  } else {
    listener = BPS_TRY(side.listenFor(handle));
    BPS_TRY(side.sendToPeer(handle.bytes()));
  }
  BPS_TRY(side.barrier());  // the receiver begins to accept only after this barrier
  const auto connected = [&]() -> Result<Progress> {
    if (comm == nullptr) comm = side.sends() ? BPS_TRY(side.connectTo(handle)) : BPS_TRY(side.acceptFrom(listener));
    return comm != nullptr ? Progress::kDone : Progress::kPending;
  };
  BPS_TRY(side.wait("the connection is", connected));
  BPS_TRY(transfer(side, comm, smallPlan(1)));
  if (listener != nullptr) BPS_TRY(side.closeListener(listener));
  BPS_TRY(side.close(comm));
  BPS_TRY(side.checkLongest({Call::kConnect, Call::kAccept}));
  return side.sends() ? side.longest(Call::kConnect) : std::string();
}

// Connects with a handle that moves in memory. Each connect call gets the handle from the previous
// connect call at another address.
Result<void*> connectMoving(Side& side, const Blob& bytes) {
  std::array<HandleBox, 2> boxes{HandleBox(bytes), HandleBox()};
  void* comm = nullptr;
  size_t attempt = 0;
  const auto connected = [&]() -> Result<Progress> {
    comm = BPS_TRY(side.connectTo(boxes[attempt % 2]));
    if (comm != nullptr) return Progress::kDone;
    boxes[(attempt + 1) % 2] = boxes[attempt % 2];
    boxes[attempt++ % 2].scribble();
    return Progress::kPending;
  };
  BPS_TRY(side.wait("connect is", connected));
  return comm;
}

Result<std::string> handleMoved(Side& side) {
  for (uint64_t i = 0; i < 20; ++i) {
    void* comm = nullptr;
    if (side.sends()) {
      const Blob handle = BPS_TRY(side.receiveFromPeer());
      comm = BPS_TRY(connectMoving(side, handle));
    } else {
      comm = BPS_TRY(side.connectOne());
    }
    BPS_TRY(transfer(side, comm, smallPlan(i)));
    BPS_TRY(side.close(comm));
  }
  return std::string();
}

// Checks that every connection reaches the listener whose handle it used.
Result<std::string> connectMany(Side& side, size_t n) {
  const std::vector<void*> comms = BPS_TRY(side.connect(n));
  std::vector<Flow> flows;
  for (size_t i = 0; i < n; ++i)
    flows.push_back(BPS_TRY(Flow::create(side, comms[i], side.sends(), smallPlan(100 * i))));
  BPS_TRY(run(side, flows));
  for (size_t i = 0; i < n; ++i) {
    BPS_TRY(flows[i].release());
    BPS_TRY(side.close(comms[i]));
  }
  return std::string();
}

Result<std::string> severalListeners(Side& side) { return connectMany(side, 4); }
Result<std::string> manyConnections(Side& side) { return connectMany(side, 64); }

// Both sides listen and connect at the same time, each side on one thread. Therefore no call may
// wait for the other side.
Result<std::string> crossingConnects(Side& side) {
  HandleBox mine;
  void *out = nullptr, *in = nullptr;
  void* listener = BPS_TRY(side.listenFor(mine));
  BPS_TRY(side.sendToPeer(mine.bytes()));
  HandleBox theirs(BPS_TRY(side.receiveFromPeer()));
  const auto crossed = [&]() -> Result<Progress> {
    if (out == nullptr) out = BPS_TRY(side.connectTo(theirs));
    if (in == nullptr) in = BPS_TRY(side.acceptFrom(listener));
    return out != nullptr && in != nullptr ? Progress::kDone : Progress::kPending;
  };
  BPS_TRY(side.wait("connect and accept are", crossed));
  BPS_TRY(side.closeListener(listener));
  std::vector<Flow> flows;
  flows.push_back(BPS_TRY(Flow::create(side, out, true, smallPlan(side.sends() ? 1 : 2))));
  flows.push_back(BPS_TRY(Flow::create(side, in, false, smallPlan(side.sends() ? 2 : 1))));
  BPS_TRY(run(side, flows));
  for (Flow& flow : flows) BPS_TRY(flow.release());
  BPS_TRY(side.closeEnd(out, true));
  BPS_TRY(side.closeEnd(in, false));
  return std::string();
}

Result<std::string> cycles(Side& side) {
  constexpr size_t kWarmUp = 3;
  const size_t total = side.options().cycles;
  ResourceUsage before;
  int64_t start = 0;
  for (size_t i = 0; i < kWarmUp + total; ++i) {
    if (i == kWarmUp) {
      BPS_TRY(side.barrier());
      before = ResourceUsage::now();
      start = nowNs();
      BPS_TRY(side.barrier());
    }
    void* comm = BPS_TRY(side.connectOne());
    if (i % 50 == 0) BPS_TRY(transfer(side, comm, smallPlan(i)));
    BPS_TRY(side.close(comm));
  }
  const int64_t took = nowNs() - start;
  BPS_TRY(side.barrier());
  const Deadline settled = Deadline::in(std::chrono::seconds(1));  // threads of the plugin may free resources later
  ResourceUsage after = ResourceUsage::now();
  for (; !describeLeak(before, after, total).empty() && !settled.passed(); after = ResourceUsage::now())
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  const std::string kept = describeLeak(before, after, total);
  if (!kept.empty()) return failure(Code::kInternal, "after {} cycles: {}", total, kept);
  return side.sends()
             ? fmt::format("{} cycles, {} each; before and after: descriptors {} {}, mappings {} {}, heap {} {}", total,
                           milliseconds(took / static_cast<int64_t>(total)), before.descriptors, after.descriptors,
                           before.mappings, after.mappings, before.heapBytes, after.heapBytes)
             : std::string();
}

constexpr std::array<Rule, 14> kSetupRules{{
    {"init", "the plugin loads, has every function that NCCL calls, initialises and finds a device", init,
     Scenario::kReceiverOnly, false},
    {"properties", "the properties of all devices are written and valid", properties, Scenario::kReceiverOnly, false},
    {"contexts", "contexts are independent: one can be finalized while another is used", contexts,
     Scenario::kReceiverOnly, false},
    {"finalize", "init works again after finalize", finalizeAndInit, Scenario::kReceiverOnly, false},
    {"finalize-twice", "a second finalize does not crash", finalizeTwice, Scenario::kReceiverOnly, false},
    {"finalize-null", "finalize of null, which NCCL calls after a failed init, does not crash", finalizeNull,
     Scenario::kReceiverOnly, false},
    {"listen", "16 listeners at once: listen does not block, each handle is unique and has 128 bytes", listen,
     Scenario::kReceiverOnly},
    {"accept-polled", "accept does not block and returns nothing until a peer connects", acceptPolled,
     Scenario::kReceiverOnly},
    {"connect-polled", "connect does not block, even if the peer does not accept", connectPolled},
    {"handle-moved", "the handle may have another address in each call of connect", handleMoved},
    {"several-listeners", "4 listeners at once: each connection reaches its own", severalListeners},
    {"many-connections", "64 connections at once work", manyConnections},
    {"crossing-connects", "two sides can connect to each other, each on one thread", crossingConnects},
    {"cycles", "connecting and closing leaks no descriptor, mapping or memory (--cycles)", cycles},
}};

}  // namespace

std::span<const Rule> setupRules() { return kSetupRules; }

}  // namespace bps::check
