// FakeNet: a net plugin in memory that makes every restriction that the plugin interface allows. Messages need
// registered memory, requests complete in order, and a sender connects only after the receiver has accepted.
//
// Any thread may use a FakeNet. A test may use a FakeLink only while no other thread uses its connection.
#pragma once
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "src/base/mutex.h"
#include "src/net/plugin_adapter.h"
#include "tests/unit/net/fake/fake_link.h"

namespace bps::test {

// The listeners and connections that several FakeNets share.
struct FakeWire {
  Mutex mutex;
  uint64_t lastId = 0;
  std::map<uint64_t, std::deque<std::shared_ptr<FakeConnection>>> listening;  // connections not yet accepted
  std::map<uint64_t, std::shared_ptr<FakeConnection>> connections;            // ordered by the time of their connect()
};

class FakeNet final : public net::PluginAdapter {
 public:
  struct Options {
    bool reverses = false;  // if true, the plugin can reverse connections
    int maxRequests = 8;
    bool takesGpuMemory = false;
  };
  FakeNet(std::shared_ptr<FakeWire> wire, Options options);
  FakeNet() : FakeNet(std::make_shared<FakeWire>(), {}) {}
  ~FakeNet() override;

  // A new connection: `comm` is an end for the code under test, and the test acts as the peer through link().
  struct End {
    std::unique_ptr<net::Comm> comm;
    std::shared_ptr<FakeConnection> connection;
    FakeLink& link() const { return connection->there; }
  };
  static End endOf(const std::shared_ptr<FakeNet>& adapter, bool sends);

  Status init(uint64_t) override { return {}; }
  Result<net::DeviceInfo> device(int index) override;
  Result<void*> listen(int device, net::Handle& handle) override;
  Result<void*> connect(int device, net::Handle& handle) override;
  Result<void*> accept(void* listener) override;
  Result<void*> registerMemory(void* comm, void* data, size_t bytes) override;
  Result<void*> registerGpu(void* comm, const net::GpuRegion& region, bool asDmaBuf) override;
  void deregister(void* comm, void* memory) override;
  Result<void*> isend(void* comm, void* data, size_t bytes, void* memory) override;
  Result<void*> irecv(void* comm, void* data, size_t bytes, void* memory) override;
  Result<void*> flush(void* comm, void* data, size_t bytes, void* memory) override;
  Result<net::Completion> test(void* request) override;
  void close(void* raw, net::RawKind kind) override;

 private:
  struct RawEnd;
  static int reverseOf(void* comm, void** other);
  static const bpsNetReverse_v1_t kReverse;
  void* newEnd(const std::shared_ptr<FakeConnection>& connection, FakeLink* link, bool sends);
  Result<void*> post(RawEnd& end, FakeRequest request);

  std::shared_ptr<FakeWire> wire_;
  const Options options_;
  int openEnds_ = 0, openListeners_ = 0;
  std::list<FakeRequest> flushes_;
};

}  // namespace bps::test
