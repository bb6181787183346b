// Rules for messages: their order, sizes and data, and the number of messages in flight.
#include <atomic>
#include <random>
#include <thread>

#include "tools/net_plugin_check/flow.h"
#include "tools/net_plugin_check/rules/rules.h"

namespace bps::check {
namespace {

constexpr size_t kInFlight = 32;  // the number that the interface requires
constexpr std::chrono::milliseconds kHeadStart{200};

// Opens a connection, runs the plan, and closes the connection.
Result<std::string> exchange(Side& side, FlowPlan plan) {
  void* comm = BPS_TRY(side.connectOne());
  BPS_TRY(transfer(side, comm, std::move(plan)));
  BPS_TRY(side.close(comm));
  return std::string();
}

std::vector<Message> randomMessages(size_t count, size_t most) {
  std::minstd_rand random(static_cast<unsigned>(count));
  std::vector<Message> messages;
  for (size_t i = 0; i < count; ++i) messages.push_back({random() % (i % 4 == 0 ? most : 300), random() % 50});
  return messages;
}

Result<std::string> registration(Side& side) {
  void* comm = BPS_TRY(side.connectOne());
  for (size_t bytes : {size_t{1}, size_t{4096}, size_t{4} << 20}) {
    const Buffer buffer = BPS_TRY(Buffer::create(side, comm, bytes));
    void* again = nullptr;
    BPS_TRY(side.expect(side.table().regMr(comm, buffer.data(), bytes, &again), Call::kRegMr));
    BPS_TRY(side.expect(side.table().deregMr(comm, again), Call::kDeregMr));
    Buffer same = BPS_TRY(Buffer::create(side, comm, bytes));
    BPS_TRY(side.expect(side.table().deregMr(comm, buffer.memory()), Call::kDeregMr));
    BPS_TRY(same.release(side, comm));
  }
  BPS_TRY(side.close(comm));
  return std::string();
}

// Registers and deregisters memory until `stop` is set. A helper thread runs this function.
Status registerRepeatedly(Side& side, void* comm, const std::atomic<bool>& stop) {
  threadCallSlot() = &side.record().helper;
  std::vector<uint8_t> bytes(size_t{1} << 16);
  while (!stop) {
    void* memory = nullptr;
    BPS_TRY(side.expect(side.table().regMr(comm, bytes.data(), bytes.size(), &memory), Call::kRegMr));
    BPS_TRY(side.expect(side.table().deregMr(comm, memory), Call::kDeregMr));
    std::this_thread::yield();
  }
  return {};
}

Result<std::string> concurrentRegistration(Side& side) {
  void* comm = BPS_TRY(side.connectOne());
  std::atomic<bool> stop{false};
  Status others, ours;
  std::thread helper([&] { others = registerRepeatedly(side, comm, stop); });
  ours = transfer(side, comm, {.messages = randomMessages(500, 50000)});
  stop = true;
  helper.join();
  BPS_TRY(std::move(ours));
  BPS_TRY(std::move(others).within("during the transfer"));
  BPS_TRY(side.close(comm));
  return std::string();
}

Result<std::string> staleRequest(Side& side) {
  constexpr uintptr_t kStale = 0x5a5a5a5a5a5a5a50;
  return exchange(side,
                  {.messages = randomMessages(100, 100000), .window = kInFlight, .stale = kStale, .checkStale = true});
}

// NCCL puts a mark for optional completion into *request of irecv. With this mark, the plugin may
// report the completion before the data arrives. The rule therefore checks only the data of a later
// message.
Result<std::string> optionalCompletion(Side& side) {
  constexpr uintptr_t kOptional = 0x1;
  if (side.table().version() < 9) return skipped("versions before 9 have no optional completion");
  void* comm = BPS_TRY(side.connectOne());
  Buffer buffer = BPS_TRY(Buffer::create(side, comm, 1000));
  void* request = side.sends() ? nullptr : reinterpret_cast<void*>(kOptional);
  const MessageBuffer piece{buffer.data(), 1000, 1, buffer.memory()};
  const auto posted = [&]() -> Result<Progress> {
    if (side.sends()) BPS_TRY(side.expect(side.table().isend(comm, piece, &request), Call::kIsend));
    else BPS_TRY(side.expect(side.table().irecv(comm, {&piece, 1}, &request), Call::kIrecv));
    if (reinterpret_cast<uintptr_t>(request) == kOptional)
      return Status(Code::kInternal, "irecv left the mark in *request");
    return request != nullptr ? Progress::kDone : Progress::kPending;
  };
  BPS_TRY(side.wait("the post is", posted));
  int bytes = 0;
  BPS_TRY(side.waitForRequest("the message is", request, &bytes));
  BPS_TRY(transfer(side, comm, {.messages = {{100}}}));
  BPS_TRY(buffer.release(side, comm));
  BPS_TRY(side.close(comm));
  return std::string();
}

// One side posts and polls for kHeadStart before the other side posts.
Result<std::string> outOfPhase(Side& side, bool first, FlowPlan plan) {
  void* comm = BPS_TRY(side.connectOne());
  Flow flow = BPS_TRY(Flow::create(side, comm, side.sends(), std::move(plan)));
  if (first) {
    for (const Deadline until = Deadline::in(kHeadStart); !until.passed();) {
      BPS_TRY(flow.step());
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
    BPS_TRY(side.sendToPeer());
  } else {
    BPS_TRY(side.receiveFromPeer());
  }
  BPS_TRY(run(side, {&flow, 1}));
  BPS_TRY(flow.release());
  BPS_TRY(side.close(comm));
  return std::string();
}

FlowPlan fourSizes() { return {.messages = {{0}, {8}, {70000}, {1}}, .window = 4}; }
Result<std::string> senderFirst(Side& side) { return outOfPhase(side, side.sends(), fourSizes()); }
Result<std::string> receiverFirst(Side& side) { return outOfPhase(side, !side.sends(), fourSizes()); }

Result<std::string> postingNeverWaits(Side& side) {
  const size_t bytes = std::min(side.options().maxBytes, size_t{16} << 20);
  BPS_TRY(outOfPhase(side, side.sends(), {.messages = {{bytes}, {bytes}}, .window = 2}));
  BPS_TRY(side.checkLongest({Call::kIsend, Call::kIrecv, Call::kTest}));
  return side.longest(side.sends() ? Call::kIsend : Call::kIrecv) + ", " + side.longest(Call::kTest);
}

// Both sides post 32 receives before anything is sent. Then 32 messages are in flight in each
// direction.
Result<std::string> inFlight(Side& side) {
  void* there = BPS_TRY(side.connectOne());
  void* back = BPS_TRY(side.connectBack());
  void *out = side.sends() ? there : back, *in = side.sends() ? back : there;
  FlowPlan plan{.messages = std::vector<Message>(2 * kInFlight, Message{30000, 0}), .window = kInFlight};
  std::vector<Flow> flows;
  flows.push_back(BPS_TRY(Flow::create(side, in, false, plan)));
  const Status posted = side.wait("posting is", [&] { return flows[0].post(); });
  if (!posted.ok())
    return failure(posted.code(), "{} receives in flight, expected {}: {}", flows[0].inFlight(), kInFlight,
                   posted.message());
  BPS_TRY(side.barrier());
  flows.push_back(BPS_TRY(Flow::create(side, out, true, plan)));
  BPS_TRY(run(side, flows));
  for (Flow& flow : flows) BPS_TRY(flow.release());
  BPS_TRY(side.closeEnd(out, true));
  BPS_TRY(side.closeEnd(in, false));
  return std::string();
}

Result<std::string> order(Side& side) { return exchange(side, {.messages = randomMessages(500, 200000), .window = 8}); }

Result<std::string> zeroBytes(Side& side) {
  return exchange(side, {.messages = {{0, 64}, {0, 64}, {5, 59}, {0, 0}, {70000, 0}, {0, 1}}, .window = 4});
}

Result<std::string> shortMessage(Side& side) {
  return exchange(side, {.messages = {{1, 99}, {4000, 96}, {100000, 900000}, {8, 1}}, .window = 2});
}

Result<std::string> misaligned(Side& side) {
  void* comm = BPS_TRY(side.connectOne());
  for (size_t offset : {1U, 3U, 7U})
    BPS_TRY(transfer(side, comm,
                     {.messages = {{1}, {2}, {7}, {9}, {4095}, {65537}}, .window = 3, .offset = offset, .seed = offset})
                .within(fmt::format("at offset {}", offset)));
  BPS_TRY(side.close(comm));
  return std::string();
}

Result<std::string> largeMessages(Side& side) {
  const DeviceProperties device = BPS_TRY(side.deviceProperties());
  const size_t most = std::min(side.options().maxBytes, device.maxBytes);
  std::vector<Message> messages;
  for (size_t bytes : {(size_t{1} << 20) - 1, size_t{1} << 20, (size_t{4} << 20) + 1, size_t{16} << 20, most})
    if (bytes <= most) messages.push_back({bytes});
  BPS_TRY(exchange(side, {.messages = messages, .window = 1}));
  return side.sends() ? fmt::format("up to {} bytes", most) : std::string();
}

// Polls until the plugin reports an error for a message that is too large. The error comes from
// test of the receive, or, in some plugins, from the send.
Result<std::string> oversize(Side& side) {
  constexpr size_t kRoom = 1000, kOversizeBytes = 100000;
  constexpr uint8_t kUntouched = 0x11;
  void* comm = BPS_TRY(side.connectOne());
  Buffer buffer = BPS_TRY(Buffer::create(side, comm, 2 * kOversizeBytes));
  std::memset(buffer.data(), kUntouched, 2 * kOversizeBytes);
  const MessageBuffer piece{buffer.data(), side.sends() ? kOversizeBytes : kRoom, 1, buffer.memory()};
  void* request = nullptr;
  int done = 0, bytes = -1;
  std::string told;
  const Status outcome = side.wait("the message is neither rejected nor", [&]() -> Result<Progress> {
    Status step;
    if (request == nullptr && side.sends()) step = side.expect(side.table().isend(comm, piece, &request), Call::kIsend);
    else if (request == nullptr) step = side.expect(side.table().irecv(comm, {&piece, 1}, &request), Call::kIrecv);
    else step = side.expect(side.table().test(request, &done, &bytes), Call::kTest);
    if (!step.ok()) told = step.message();
    return done != 0 || !told.empty() ? Progress::kDone : Progress::kPending;
  });
  if (side.sends()) {  // the send may complete, fail, or stay in flight
    BPS_TRY(side.barrier());
    BPS_TRY(side.close(comm));
    return std::string();
  }
  BPS_TRY(outcome.clone());
  if (told.empty())
    return failure(Code::kInternal, "{} bytes into a receive of {} completed with {} bytes and no error",
                   kOversizeBytes, kRoom, bytes);
  for (size_t i = kRoom; i < 2 * kOversizeBytes; ++i)
    if (buffer.data()[i] != kUntouched)
      return failure(Code::kInternal, "byte {} is after the receive buffer and was written", i);
  BPS_TRY(side.barrier());
  BPS_TRY(side.close(comm));
  return told;
}

Result<std::string> flush(Side& side) {
  if (!side.table().canFlush()) return skipped("the plugin has no iflush");
  const DeviceProperties device = BPS_TRY(side.deviceProperties());
  void* comm = BPS_TRY(side.connectOne());
  BPS_TRY(transfer(side, comm, {.messages = {{4096}}}));
  BPS_TRY(side.barrier());
  if (!side.sends()) {
    Buffer buffer = BPS_TRY(Buffer::create(side, comm, 4096));
    void* request = nullptr;
    const Status asked =
        side.expect(side.table().iflush(comm, {buffer.data(), 4096, 0, buffer.memory()}, &request), Call::kIflush);
    if (!asked.ok() && device.ptrSupport == abi::kPtrHost)
      return skipped(fmt::format("NCCL does not flush host memory, and {}", asked.message()));
    BPS_TRY(asked.clone());
    if (request != nullptr) BPS_TRY(side.waitForRequest("the flush is", request));
    BPS_TRY(buffer.release(side, comm));
  }
  BPS_TRY(side.close(comm));
  return std::string();
}

// Two grouped receives with the same tags. The messages of each group are sent in the reverse order
// of their tags.
class Groups {
 public:
  static constexpr size_t kGroups = 2, kSlotBytes = 4096;

  Groups(Side& side, void* comm, size_t pieces) : side_(side), comm_(comm), pieces_(pieces) {}

  Result<std::string> run() {
    buffer_ = BPS_TRY(Buffer::create(side_, comm_, kGroups * pieces_ * kSlotBytes));
    for (size_t group = 0; group < kGroups; ++group)
      if (side_.sends()) BPS_TRY(send(group));
      else BPS_TRY(receive(group));
    for (size_t i = 0; i < requests_.size(); ++i) BPS_TRY(finish(i));
    BPS_TRY(buffer_.release(side_, comm_));
    return fmt::format("{} receives per group", pieces_);
  }

 private:
  size_t bytesOf(size_t group, size_t tag) const { return 100 * (tag + 1) + group; }
  uint64_t seedOf(size_t group, size_t tag) const { return 1000 + group * kMaxGroupedReceives + tag; }
  MessageBuffer piece(size_t group, size_t tag) const {
    return {buffer_.data() + (group * pieces_ + tag) * kSlotBytes, side_.sends() ? bytesOf(group, tag) : kSlotBytes,
            static_cast<int>(tag), buffer_.memory()};
  }

  Status post(Call call, const std::function<int(void**)>& poster) {
    void* request = nullptr;
    const auto posted = [&]() -> Result<Progress> {
      BPS_TRY(side_.expect(poster(&request), call));
      return request != nullptr ? Progress::kDone : Progress::kPending;
    };
    BPS_TRY(side_.wait(fmt::format("{} is", nameOf(call)), posted));
    requests_.push_back(request);
    return {};
  }
  Status send(size_t group) {
    for (size_t tag = pieces_; tag-- > 0;) {
      const MessageBuffer one = piece(group, tag);
      fillPattern(static_cast<uint8_t*>(one.data), one.bytes, seedOf(group, tag));
      BPS_TRY(post(Call::kIsend, [&](void** request) { return side_.table().isend(comm_, one, request); }));
    }
    return {};
  }
  Status receive(size_t group) {
    std::vector<MessageBuffer> all;
    for (size_t tag = 0; tag < pieces_; ++tag) all.push_back(piece(group, tag));
    return post(Call::kIrecv, [&](void** request) { return side_.table().irecv(comm_, all, request); });
  }

  Status finish(size_t index) {
    std::array<int, kMaxGroupedReceives> sizes{};
    BPS_TRY(side_.waitForRequest(fmt::format("request {} is", index), requests_[index], sizes.data()));
    for (size_t tag = 0; tag < pieces_ && !side_.sends(); ++tag) {
      const size_t bytes = bytesOf(index, tag);
      if (static_cast<size_t>(sizes[tag]) != bytes)
        return failure(Code::kInternal, "test reported {} bytes for tag {} of group {}, expected {}", sizes[tag], tag,
                       index, bytes);
      if (!hasPattern(static_cast<const uint8_t*>(piece(index, tag).data), bytes, seedOf(index, tag)))
        return failure(Code::kInternal, "the message with tag {} of group {} arrived with wrong data", tag, index);
    }
    return {};
  }

  Side& side_;
  void* comm_;
  size_t pieces_;
  Buffer buffer_;
  std::vector<void*> requests_;
};

Result<std::string> groupedReceives(Side& side) {
  const DeviceProperties device = BPS_TRY(side.deviceProperties());
  if (device.maxRecvs < 2) return skipped("maxRecvs is 1");
  void* comm = BPS_TRY(side.connectOne());
  std::string detail =
      BPS_TRY(Groups(side, comm, std::min(static_cast<size_t>(device.maxRecvs), kMaxGroupedReceives)).run());
  BPS_TRY(side.close(comm));
  return side.sends() ? std::string() : detail;
}

constexpr std::array<Rule, 16> kMessageRules{{
    {"registration", "host memory can be registered, also twice, and deregistered", registration},
    {"concurrent-registration", "a second thread can register memory while messages are in flight",
     concurrentRegistration},
    {"stale-request", "every isend and irecv writes *request, whatever its value was", staleRequest},
    {"optional-completion", "the mark 1 in *request of irecv is supported or ignored", optionalCompletion},
    {"sender-first", "messages can be posted long before their receives", senderFirst},
    {"receiver-first", "receives can be posted long before their messages", receiverFirst},
    {"posting-never-waits", "isend, irecv and test do not block if no progress is possible", postingNeverWaits},
    {"in-flight", "32 messages can be in flight in each direction", inFlight},
    {"order", "messages match receives in the order of posting, with correct data", order},
    {"grouped-receives", "messages match the receives of the oldest group by their tags", groupedReceives},
    {"zero-bytes", "empty messages arrive as empty messages", zeroBytes},
    {"short-message", "for a message smaller than its receive, test reports the message's size", shortMessage},
    {"misaligned", "buffers and sizes need no alignment", misaligned},
    {"large", "messages up to --max-bytes arrive", largeMessages},
    {"oversize", "for a message larger than its receive, test returns an error", oversize},
    {"flush", "iflush works after a receive", flush},
}};

}  // namespace

std::span<const Rule> messageRules() { return kMessageRules; }

}  // namespace bps::check
