// Tests every version of NCCL's net interface that bps's plugin exports. The test calls the functions through each
// version's table, as NCCL does.
#include <dlfcn.h>

#include <array>
#include <cstring>
#include <string>

#include "net_plugin/abi.h"
#include "tests/unit/net/net_fixture.h"

namespace bps::test {
namespace {

// An invalid pointer. Tests set out-parameters to this value before each call, because NCCL need not clear them.
void* stale() { return reinterpret_cast<void*>(uintptr_t{0x1}); }

void* bpsPluginLibrary() {
  static void* library = [] {
    const std::string description = loadBpsPlugin()->description();  // for example, "bps v12 (path)"
    const size_t open = description.find('(');
    return ::dlopen(description.substr(open + 1, description.size() - open - 2).c_str(), RTLD_NOW | RTLD_LOCAL);
  }();
  return library;
}

void ignoreLog(int, unsigned long, const char*, int, const char*, ...) {}
int ignoreEvent(void**, int, void*, int64_t, void*) { return 0; }

// Gives the functions that differ between versions the form that they have in the newest version.
template <int V>
class Api {
 public:
  using Size = typename abi::Signatures<V>::Size;
  Api() : table_(static_cast<const abi::Net<V>*>(::dlsym(bpsPluginLibrary(), symbol().c_str()))) {}

  static std::string symbol() { return "ncclNetPlugin_v" + std::to_string(V); }
  const abi::Net<V>* table() const { return table_; }
  const abi::Head<V>* operator->() const { return &table_->head; }

  int init() {
    if constexpr (V >= 11) {
      abi::Config config{abi::kUndefinedId};
      context_ = stale();
      return table_->head.init(&context_, 77, &config, ignoreLog, ignoreEvent);
    } else if constexpr (V == 10) {
      return table_->head.init(ignoreLog, ignoreEvent);
    } else {
      return table_->head.init(ignoreLog);
    }
  }
  int listen(int device, void* handle, void** comm) const {
    if constexpr (V >= 11) return table_->head.listen(context_, device, handle, comm);
    else return table_->head.listen(device, handle, comm);
  }
  int connect(int device, void* handle, void** comm) const {
    abi::DeviceHandle* deviceHandle = nullptr;
    [[maybe_unused]] abi::Config config{abi::kUndefinedId};
    if constexpr (V >= 11) return table_->head.connect(context_, device, handle, comm, &deviceHandle);
    else if constexpr (V == 10) return table_->head.connect(device, &config, handle, comm, &deviceHandle);
    else return table_->head.connect(device, handle, comm, nullptr);
  }
  int isend(void* comm, void* data, size_t bytes, void** request) const {
    if constexpr (V >= 10)
      return table_->head.isend(comm, data, static_cast<Size>(bytes), 5, nullptr, nullptr, request);
    else return table_->head.isend(comm, data, static_cast<Size>(bytes), 5, nullptr, request);
  }
  int irecv(void* comm, int n, void* data, size_t bytes, void** request) const {
    std::array<void*, 2> buffers{data, data}, memory{};
    std::array<Size, 2> sizes{static_cast<Size>(bytes), static_cast<Size>(bytes)};
    std::array<int, 2> tags{5, 5};
    if constexpr (V >= 10)
      return table_->head.irecv(comm, n, buffers.data(), sizes.data(), tags.data(), memory.data(), nullptr, request);
    else return table_->head.irecv(comm, n, buffers.data(), sizes.data(), tags.data(), memory.data(), request);
  }
  int finalize() const {
    if constexpr (V >= 11) return table_->tail.finalize(context_);
    else return 0;
  }

 private:
  const abi::Net<V>* table_;
  void* context_ = nullptr;
};

template <class Version>
class PluginVersions : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NE(api_.table(), nullptr);
    selectCarrier(Carrier::kMemory);
    ASSERT_EQ(api_.init(), 0);
  }
  void TearDown() override {
    for (void* comm : {send_, receive_})
      if (comm != nullptr) failures_ += api_->closeSend(comm);
    EXPECT_EQ(failures_, 0);
    EXPECT_EQ(api_.finalize(), 0);
    EXPECT_EQ(api_.finalize(), 0) << "again";
  }
  void connect() {
    std::array<uint8_t, abi::kHandleBytes> handle{};
    void* listener = stale();
    ASSERT_EQ(api_.listen(0, handle.data(), &listener), 0);
    void* early = stale();
    ASSERT_EQ(api_->accept(listener, &early, nullptr), 0);
    EXPECT_EQ(early, nullptr) << "nobody has connected";
    const Deadline deadline = Deadline::in(kTestTimeout);
    while ((send_ == nullptr || receive_ == nullptr) && !deadline.passed()) {
      if (send_ == nullptr) failures_ += api_.connect(0, handle.data(), &send_);
      if (receive_ == nullptr) failures_ += api_->accept(listener, &receive_, nullptr);
    }
    ASSERT_EQ(failures_, 0);
    ASSERT_EQ(api_->closeListen(listener), 0);
    ASSERT_TRUE(send_ != nullptr && receive_ != nullptr);
  }
  // Waits until the request is done, and returns the size that test() reports. Returns a negative number on failure.
  int finish(void* request) {
    int done = 0, bytes = -1;
    const Deadline deadline = Deadline::in(kTestTimeout);
    while (done == 0 && !deadline.passed())
      if (api_->test(request, &done, &bytes) != 0) return -2;
    return done != 0 ? bytes : -1;
  }

  Api<Version::value> api_;
  void* send_ = nullptr;
  void* receive_ = nullptr;
  int failures_ = 0;
};

struct VersionName {
  template <class Version>
  static std::string GetName(int) {
    return "v" + std::to_string(Version::value);
  }
};
using Versions =
    ::testing::Types<std::integral_constant<int, 8>, std::integral_constant<int, 9>, std::integral_constant<int, 10>,
                     std::integral_constant<int, 11>, std::integral_constant<int, 12>>;
TYPED_TEST_SUITE(PluginVersions, Versions, VersionName);

TYPED_TEST(PluginVersions, AllFunctionsNcclCallsUncheckedExist) {
  const auto& api = this->api_;
  EXPECT_STREQ(api->name, "bps");
  EXPECT_TRUE(api->init && api->devices && api->getProperties && api->listen && api->connect && api->accept);
  EXPECT_TRUE(api->regMr && api->deregMr && api->isend && api->irecv && api->iflush && api->test);
  EXPECT_TRUE(api->closeSend && api->closeRecv && api->closeListen);
  EXPECT_TRUE(!api->getDeviceMr && !api->irecvConsumed) << "offered though not implemented";
}

TYPED_TEST(PluginVersions, PropertiesDescribeTheDevice) {
  constexpr int V = TypeParam::value;
  int count = 0;
  ASSERT_EQ(this->api_->devices(&count), 0);
  EXPECT_EQ(count, 1) << "loopback only";
  abi::Properties<V> properties;
  std::memset(static_cast<void*>(&properties), 0x5a, sizeof properties);
  ASSERT_EQ(this->api_->getProperties(0, &properties), 0);
  EXPECT_STREQ(properties.name, "lo");
  EXPECT_EQ(properties.pciPath, nullptr);
  EXPECT_EQ(properties.ptrSupport, abi::kPtrHost);
  EXPECT_GT(properties.speed, 0);
  EXPECT_EQ(properties.maxRecvs, 1);
  EXPECT_EQ(properties.deviceType, 0);
  if constexpr (V >= 9) {
    EXPECT_EQ(properties.virtualDevice.count, 1);
    EXPECT_EQ(properties.virtualDevice.devices[0], 0);
    EXPECT_EQ(properties.maxP2pBytes, (size_t{1} << 31) - 1);
  }
  if constexpr (V >= 12) {
    EXPECT_TRUE(properties.railId == -1 && properties.planeId == -1);
  }
  EXPECT_NE(this->api_->getProperties(1, &properties), 0);
  EXPECT_NE(this->api_->getProperties(-1, &properties), 0);
}

TYPED_TEST(PluginVersions, OneMessageIsTransferred) {
  this->connect();
  std::vector<uint8_t> sent = randomBytes(100000, 1), got(sent.size() + 10);
  void* memory = stale();
  ASSERT_EQ(this->api_->regMr(this->send_, sent.data(), sent.size(), abi::kPtrHost, &memory), 0);
  EXPECT_NE(this->api_->regMr(this->send_, sent.data(), sent.size(), abi::kPtrCuda, &memory), 0) << "by TCP";
  EXPECT_NE(this->api_->regMrDmaBuf(this->send_, sent.data(), sent.size(), abi::kPtrCuda, 0, 0, &memory), 0);
  EXPECT_NE(this->api_->regMr(this->send_, sent.data(), sent.size(), 8, &memory), 0) << "no such memory";
  void *send = stale(), *receive = stale();
  ASSERT_EQ(this->api_.irecv(this->receive_, 1, got.data(), got.size(), &receive), 0);
  ASSERT_EQ(this->api_.isend(this->send_, sent.data(), sent.size(), &send), 0);
  EXPECT_EQ(this->finish(send), static_cast<int>(sent.size()));
  EXPECT_EQ(this->finish(receive), static_cast<int>(sent.size()));
  got.resize(sent.size());
  EXPECT_EQ(got, sent);
  int done = 7;
  EXPECT_EQ(this->api_->test(receive, &done, nullptr), abi::kInvalidArgument) << "a request dies with its completion";
  EXPECT_EQ(done, 0);
}

TYPED_TEST(PluginVersions, InvalidArgumentsAreErrors) {
  std::array<uint8_t, abi::kHandleBytes> noHandle{};
  void *comm = stale(), *request = stale();
  EXPECT_NE(this->api_.connect(0, noHandle.data(), &comm), 0);
  EXPECT_EQ(comm, nullptr);
  comm = stale();
  EXPECT_NE(this->api_.listen(9, noHandle.data(), &comm), 0);
  EXPECT_EQ(comm, nullptr);
  this->connect();
  EXPECT_NE(this->api_.irecv(this->receive_, 2, noHandle.data(), 1, &request), 0) << "grouped";
  EXPECT_EQ(request, nullptr);
  request = stale();
  EXPECT_NE(this->api_.isend(this->send_, nullptr, 1, &request), 0);
  EXPECT_EQ(request, nullptr);
  EXPECT_NE(this->api_.isend(this->send_, noHandle.data(), size_t{1} << 31, &request), 0);
  EXPECT_EQ(this->api_->test(nullptr, nullptr, nullptr), abi::kInvalidArgument);
  EXPECT_EQ(this->api_->iflush(this->receive_, 1, nullptr, nullptr, nullptr, &request), 0);
  EXPECT_EQ(request, nullptr);
}

TEST(Contexts, FinalizeAcceptsAnyPointer) {
  const Api<12> api;
  EXPECT_EQ(api.table()->tail.finalize(nullptr), 0);
  int something = 0;
  EXPECT_EQ(api.table()->tail.finalize(&something), 0);
}

template <int Which>
struct Counting {
  static inline int lines = 0;
  static void log(int, unsigned long, const char*, int, const char*, ...) { ++lines; }
};

// An application may unload its logger after it has finalized the context that received the logger. So the plugin must
// not call a logger after its context is finalized.
TEST(Contexts, DoNotCallTheLoggerAfterFinalize) {
  const Api<12> api;
  std::array<void*, 2> contexts{};
  abi::Config config{abi::kUndefinedId};
  ASSERT_EQ(api->init(&contexts[0], 1, &config, Counting<0>::log, ignoreEvent), 0);
  ASSERT_EQ(api->init(&contexts[1], 2, &config, Counting<1>::log, ignoreEvent), 0);
  const auto linesOf = [&](int& lines) {
    const int before = lines;
    EXPECT_EQ(api->test(nullptr, nullptr, nullptr), abi::kInvalidArgument);
    return lines - before;
  };
  EXPECT_EQ(linesOf(Counting<1>::lines), 1);
  ASSERT_EQ(api.table()->tail.finalize(contexts[1]), 0);
  EXPECT_EQ(linesOf(Counting<1>::lines), 0);
  EXPECT_EQ(linesOf(Counting<0>::lines), 1);
  ASSERT_EQ(api.table()->tail.finalize(contexts[0]), 0);
  EXPECT_EQ(linesOf(Counting<0>::lines), 0);
}

TEST(Contexts, AreIndependent) {
  Api<12> first, second;
  ASSERT_EQ(first.init(), 0);
  ASSERT_EQ(second.init(), 0);
  ASSERT_EQ(first.finalize(), 0);
  std::array<uint8_t, abi::kHandleBytes> handle{};
  void* listener = nullptr;
  EXPECT_EQ(first.listen(0, handle.data(), &listener), abi::kInvalidArgument);
  EXPECT_EQ(second.listen(0, handle.data(), &listener), 0);
  EXPECT_EQ(second->closeListen(listener), 0);
  EXPECT_EQ(second.finalize(), 0);
}

}  // namespace
}  // namespace bps::test
