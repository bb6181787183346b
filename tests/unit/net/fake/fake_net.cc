#include "tests/unit/net/fake/fake_net.h"

#include <algorithm>
#include <cstring>

namespace bps::test {
namespace {

struct Region {
  uint8_t* data;
  size_t bytes;
};

// The state of an unfinished connect(). Like real net plugins, FakeNet keeps this state in the handle between calls.
struct HandleState {
  uint64_t listener = 0, connection = 0;
};
HandleState read(const net::Handle& handle) {
  HandleState state;
  std::memcpy(&state, handle.data(), sizeof state);
  return state;
}
void write(net::Handle& handle, const HandleState& state) { std::memcpy(handle.data(), &state, sizeof state); }

}  // namespace

struct FakeNet::RawEnd {
  FakeNet* net;
  std::shared_ptr<FakeConnection> connection;
  FakeLink* link;
  bool sends;
  std::list<Region> regions = {};

  FakeLink::Requests& requests() const { return sends ? link->sends : link->receives; }
  bool covers(const uint8_t* data, size_t bytes, const void* memory) const {
    return std::any_of(regions.begin(), regions.end(), [&](const Region& region) {
      return &region == memory && data >= region.data && data + bytes <= region.data + region.bytes;
    });
  }
};

const bpsNetReverse_v1_t FakeNet::kReverse{&FakeNet::reverseOf};

FakeNet::FakeNet(std::shared_ptr<FakeWire> wire, Options options) : wire_(std::move(wire)), options_(options) {
  description_ = name_ = "fake";
  deviceCount_ = 1;
  maxRequests_ = options.maxRequests;
  if (options.reverses) reverse_ = &kReverse;
}

FakeNet::~FakeNet() {
  EXPECT_EQ(openEnds_, 0) << "connections were not closed";
  EXPECT_EQ(openListeners_, 0) << "listeners were not closed";
}

FakeNet::End FakeNet::endOf(const std::shared_ptr<FakeNet>& adapter, bool sends) {
  auto connection = std::make_shared<FakeConnection>();
  void* raw = adapter->newEnd(connection, &connection->there, sends);
  return {std::make_unique<net::Comm>(adapter, raw, sends), connection};
}

Result<net::DeviceInfo> FakeNet::device(int) {
  net::DeviceInfo info;
  info.name = "fake0";
  info.maxBytes = 1U << 30;
  info.gpu.byAddress = options_.takesGpuMemory;
  return info;
}

Result<void*> FakeNet::listen(int, net::Handle& handle) {
  MutexLock lock(wire_->mutex);
  const uint64_t id = ++wire_->lastId;
  wire_->listening[id];
  write(handle, {id, 0});
  ++openListeners_;
  return static_cast<void*>(new uint64_t(id));
}

Result<void*> FakeNet::connect(int, net::Handle& handle) {
  MutexLock lock(wire_->mutex);
  HandleState state = read(handle);
  if (state.connection == 0) {
    const auto listener = wire_->listening.find(state.listener);
    if (listener == wire_->listening.end()) return Status(Code::kRemote, "connection refused");
    state.connection = ++wire_->lastId;
    write(handle, state);
    listener->second.push_back(wire_->connections[state.connection] = std::make_shared<FakeConnection>());
  }
  const auto& connection = wire_->connections[state.connection];
  return connection->accepted ? newEnd(connection, &connection->there, true) : nullptr;
}

Result<void*> FakeNet::accept(void* listener) {
  MutexLock lock(wire_->mutex);
  auto& waiting = wire_->listening[*static_cast<uint64_t*>(listener)];
  if (waiting.empty()) return static_cast<void*>(nullptr);
  const std::shared_ptr<FakeConnection> connection = waiting.front();
  waiting.pop_front();
  connection->accepted = true;
  return newEnd(connection, &connection->there, false);
}

Result<void*> FakeNet::registerMemory(void* comm, void* data, size_t bytes) {
  MutexLock lock(wire_->mutex);
  EXPECT_GT(bytes, 0U);
  auto& end = *static_cast<RawEnd*>(comm);
  if (!end.link->failure.empty()) return Status(Code::kSystem, end.link->failure);
  end.regions.push_back({static_cast<uint8_t*>(data), bytes});
  return static_cast<void*>(&end.regions.back());
}

Result<void*> FakeNet::registerGpu(void* comm, const net::GpuRegion& region, bool) {
  EXPECT_TRUE(options_.takesGpuMemory);
  return registerMemory(comm, region.data, region.bytes);
}

void FakeNet::deregister(void* comm, void* memory) {
  MutexLock lock(wire_->mutex);
  auto& end = *static_cast<RawEnd*>(comm);
  const size_t before = end.regions.size();
  end.regions.remove_if([&](const Region& region) { return &region == memory; });
  EXPECT_EQ(end.regions.size() + 1, before) << "memory that is not registered is deregistered";
}

Result<void*> FakeNet::isend(void* comm, void* data, size_t bytes, void* memory) {
  auto& end = *static_cast<RawEnd*>(comm);
  EXPECT_TRUE(end.sends);
  return post(end, {.link = end.link, .data = static_cast<uint8_t*>(data), .bytes = bytes, .memory = memory});
}

Result<void*> FakeNet::irecv(void* comm, void* data, size_t bytes, void* memory) {
  auto& end = *static_cast<RawEnd*>(comm);
  EXPECT_FALSE(end.sends);
  return post(end, {.link = end.link, .data = static_cast<uint8_t*>(data), .bytes = bytes, .memory = memory});
}

Result<void*> FakeNet::post(RawEnd& end, FakeRequest request) {
  MutexLock lock(wire_->mutex);
  if (!end.link->failure.empty()) return Status(Code::kSystem, end.link->failure);
  if (end.link->full) return static_cast<void*>(nullptr);
  EXPECT_TRUE(request.bytes == 0 || end.covers(request.data, request.bytes, request.memory))
      << "a message lies outside of registered memory";
  request.sends = end.sends;
  end.requests().push_back(request);
  EXPECT_LE(end.requests().size(), static_cast<size_t>(maxRequests_)) << "more requests than the plugin takes";
  return static_cast<void*>(&end.requests().back());
}

Result<void*> FakeNet::flush(void* comm, void* data, size_t bytes, void* memory) {
  MutexLock lock(wire_->mutex);
  auto& end = *static_cast<RawEnd*>(comm);
  EXPECT_TRUE(end.covers(static_cast<uint8_t*>(data), bytes, memory));
  ++end.link->flushesStarted;
  flushes_.push_back({.link = end.link, .flushes = true});
  return static_cast<void*>(&flushes_.back());
}

Result<net::Completion> FakeNet::test(void* raw) {
  MutexLock lock(wire_->mutex);
  auto& request = *static_cast<FakeRequest*>(raw);
  FakeLink& link = *request.link;
  if (!link.failure.empty()) return Status(Code::kSystem, link.failure);
  if (request.flushes) return net::Completion{!link.flushHeld, 0};
  auto& requests = request.sends ? link.sends : link.receives;
  EXPECT_EQ(&requests.front(), &request) << "a request that is not the oldest is tested";
  if (!request.done) link.move();
  if (!request.done && link.closed) return Status(Code::kRemote, "the peer has closed");
  if (!request.done) return net::Completion{};
  const net::Completion completion{true, request.received};
  requests.pop_front();
  return completion;
}

void FakeNet::close(void* raw, net::RawKind kind) {
  MutexLock lock(wire_->mutex);
  if (kind == net::RawKind::kListener) {
    auto* id = static_cast<uint64_t*>(raw);
    wire_->listening.erase(*id);
    delete id;
    --openListeners_;
    return;
  }
  auto* end = static_cast<RawEnd*>(raw);
  EXPECT_EQ(end->sends, kind == net::RawKind::kSend);
  EXPECT_TRUE(end->regions.empty()) << "memory is still registered";
  end->link->closed = true;
  end->requests().clear();
  delete end;
  --openEnds_;
}

int FakeNet::reverseOf(void* comm, void** other) {
  auto& end = *static_cast<RawEnd*>(comm);
  *other = end.net->newEnd(end.connection, &end.connection->back, !end.sends);
  return 0;
}

void* FakeNet::newEnd(const std::shared_ptr<FakeConnection>& connection, FakeLink* link, bool sends) {
  ++openEnds_;
  return new RawEnd{this, connection, link, sends};
}

}  // namespace bps::test
