// Tests verbs connections between simulated RDMA devices: transfers, the release of resources, and peers that fail or
// send invalid data.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <sys/socket.h>

#include "net_plugin/verbs/ib/queue_comm.h"
#include "tests/unit/net/net_fixture.h"
#include "tests/unit/net_plugin/verbs/ib/soft_verbs.h"

namespace bps::plugin::verbs {
namespace {

using Handshake = RdmaDevice::Handshake;
using test::valueOf;

constexpr uint64_t kPiece = 4096;

struct Sockets {
  UniqueFd one, other;

  Sockets() {
    std::array<int, 2> fds{-1, -1};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds.data()), 0);
    one = UniqueFd(fds[0]);
    other = UniqueFd(fds[1]);
  }
};

// A connection between two simulated devices. connect() creates the receiver's queue pair before the sender's queue
// pair.
class SoftVerbs : public ::testing::Test {
 protected:
  static constexpr uint32_t kReceiver = 1, kSender = 2;

  void connect(IbvDevice& device) {
    Sockets sockets;
    const VerbsExtension verbsExtension = device.verbsExtension();
    const Deadline deadline = Deadline::in(test::kTestTimeout);
    std::unique_ptr<Handshake> receiving =
        valueOf(device.startHandshake(std::move(sockets.one), RdmaDevice::Role::kReceiver, nullptr, deadline));
    std::unique_ptr<Handshake> sending =
        valueOf(device.startHandshake(std::move(sockets.other), RdmaDevice::Role::kSender, &verbsExtension, deadline));
    while (!(sender_ && receiver_) && !deadline.passed()) {
      if (!receiver_) receiver_ = valueOf(receiving->step());
      if (!sender_) sender_ = valueOf(sending->step());
    }
    ASSERT_TRUE(sender_ && receiver_);
  }
  void close() {
    sender_.reset();
    receiver_.reset();
  }

  soft::FakeFabric fabric_{kPiece};
  std::unique_ptr<IbvDevice> device_ = fabric_.open({});
  std::unique_ptr<Comm> sender_, receiver_;
};

std::string testOutcome(Comm& comm, Request& request) {
  Result<Completion> tested = comm.test(request);
  if (!tested.ok()) return tested.error().message();
  return std::move(tested).value().done ? "it is done" : "it is not done yet";
}

// Polls the request up to ten times. Returns "it is done", "it is not done yet" or the error.
std::string pollUntilDone(Comm& comm, Request& request) {
  std::string outcome = testOutcome(comm, request);
  for (int i = 0; i < 10 && outcome == "it is not done yet"; ++i) outcome = testOutcome(comm, request);
  return outcome;
}

class VerbsTransfer : public SoftVerbs, public ::testing::WithParamInterface<bool> {
 protected:
  void SetUp() override {
    VerbsOptions options;
    options.write = GetParam();
    device_ = fabric_.open(options);
  }

  // Sends a message of each size, and expects that all messages arrive complete. All requests are posted before the
  // first request is tested. If `known` is true, all buffers are registered memory.
  void pass(const std::vector<size_t>& sizes, bool known) {
    std::vector<std::vector<uint8_t>> sent, got;
    std::vector<Request*> sends, receives;
    std::vector<std::pair<Comm*, void*>> registered;
    const auto post = [&](Comm& comm, std::vector<uint8_t>& bytes) {
      void* memory = known ? valueOf(comm.registerMemory({bytes.data(), bytes.size()})) : nullptr;
      if (known) registered.emplace_back(&comm, memory);
      return valueOf(comm.post(bytes.data(), bytes.size(), memory));
    };
    for (size_t i = 0; i < sizes.size(); ++i) {
      sent.push_back(test::randomBytes(sizes[i], static_cast<unsigned>(i)));
      got.emplace_back(sizes[i] + 100 * (i % 3));
    }
    for (size_t i = 0; i < sizes.size(); ++i) {
      if (i % 2 == 0) receives.push_back(post(*receiver_, got[i]));
      sends.push_back(post(*sender_, sent[i]));
      if (i % 2 == 1) receives.push_back(post(*receiver_, got[i]));
    }
    for (size_t i = 0; i < sizes.size(); ++i) {
      Completion received, done;
      for (int round = 0; round < 1000 && !(received.done && done.done); ++round) {
        if (!received.done) received = valueOf(receiver_->test(*receives[i]));
        if (!done.done) done = valueOf(sender_->test(*sends[i]));
      }
      ASSERT_TRUE(received.done && done.done) << "message " << i;
      ASSERT_EQ(received.bytes, sizes[i]);
      got[i].resize(sizes[i]);
      ASSERT_TRUE(got[i] == sent[i]) << "message " << i << " of " << sizes[i];
    }
    for (const auto& [comm, memory] : registered) comm->deregisterMemory(memory);
  }
};

TEST_P(VerbsTransfer, EverySizeAroundAPieceBoundaryArrives) {
  connect(*device_);
  const std::vector<size_t> sizes{0, 1, kPiece - 1, kPiece, kPiece + 1, 8191, 8192, 8193, 3 * kPiece, 100001};
  for (const size_t size : sizes) pass({size}, false);
  pass(sizes, false);
  pass(sizes, true);
  EXPECT_EQ(fabric_.receiverNotReadyCount(), 0U) << "a message came before its receive";
}

TEST_P(VerbsTransfer, FullRequestRingArrives) {
  connect(*device_);
  std::vector<size_t> sizes;
  for (size_t i = 0; i < RequestRing::kCapacity; ++i) sizes.push_back(i * 997);
  for (int i = 0; i < 3; ++i) pass(sizes, i % 2 == 0);
  EXPECT_EQ(fabric_.receiverNotReadyCount(), 0U);
}

TEST_P(VerbsTransfer, CloseReleasesAllResources) {
  for (int i = 0; i < 100; ++i) {
    connect(*device_);
    pass({10, 20000}, i % 2 == 0);
    std::vector<uint8_t> bytes(50000);
    valueOf(receiver_->post(bytes.data(), bytes.size()));  // a receive in flight keeps its memory registered
    Request* send = valueOf(sender_->post(bytes.data(), bytes.size()));
    if (i % 3 == 0) valueOf(sender_->test(*send));
    close();
  }
  EXPECT_EQ(fabric_.registrations(), 0U);
  EXPECT_EQ(fabric_.queuePairs(), 0U);
}

TEST_P(VerbsTransfer, MessagesBeforeAFailureAreReceived) {
  connect(*device_);
  std::vector<std::vector<uint8_t>> got(4, std::vector<uint8_t>(100));
  std::vector<Request*> receives;
  for (auto& each : got) receives.push_back(valueOf(receiver_->post(each.data(), each.size())));
  ASSERT_FALSE(valueOf(receiver_->test(*receives[0])).done);
  std::vector<uint8_t> bytes = test::randomBytes(100, 1);
  for (int i = 0; i < 3; ++i) valueOf(sender_->test(*valueOf(sender_->post(bytes.data(), bytes.size()))));
  fabric_.fail(kReceiver);
  for (size_t i = 0; i < 3; ++i) {
    ASSERT_EQ(testOutcome(*receiver_, *receives[i]), "it is done") << "message " << i;
    EXPECT_TRUE(got[i] == bytes);
  }
  EXPECT_NE(testOutcome(*receiver_, *receives[3]).find("retry counter exceeded"), std::string::npos);
}

TEST_P(VerbsTransfer, ArmReportsAFailureBeforeSleeping) {
  connect(*device_);
  std::vector<uint8_t> bytes(100);
  Request* receive = valueOf(receiver_->post(bytes.data(), bytes.size()));
  ASSERT_FALSE(valueOf(receiver_->test(*receive)).done);
  fabric_.fail(kReceiver);
  EXPECT_TRUE(valueOf(receiver_->arm())) << "sleeps, though nothing will wake it";
}

TEST_P(VerbsTransfer, MessagesReceivedBeforeThePeerClosesAreCompleted) {
  connect(*device_);
  fabric_.withholdAcknowledgements();
  std::vector<uint8_t> bytes = test::randomBytes(100, 1), got(100);
  Request* receive = valueOf(receiver_->post(got.data(), got.size()));
  ASSERT_FALSE(valueOf(receiver_->test(*receive)).done);
  Request* first = valueOf(sender_->post(bytes.data(), bytes.size()));
  Request* second = valueOf(sender_->post(bytes.data(), bytes.size()));
  ASSERT_FALSE(valueOf(sender_->test(*first)).done);
  ASSERT_TRUE(valueOf(receiver_->test(*receive)).done);
  receiver_.reset();
  fabric_.fail(kSender);  // simulates a missing acknowledgement
  EXPECT_EQ(testOutcome(*sender_, *first), "it is done");
  EXPECT_NE(testOutcome(*sender_, *second).find("closed the connection"), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(By, VerbsTransfer, ::testing::Bool(),
                         [](const auto& each) { return each.param ? std::string("write") : std::string("send"); });

// Transfers from GPU memory to GPU memory, with a flush after each arrival. The CPU must never access this memory.
class VerbsGpuMemory : public VerbsTransfer {
 protected:
  static constexpr size_t kHalf = 40000;

  void open(const std::string& peerMemModule) {
    close();
    VerbsOptions options;
    options.write = GetParam();
    options.peerMemModule = peerMemModule;
    device_ = fabric_.open(options);
  }
  // Sends a message of each of these sizes from the first half of memory_ to the second half.
  void pass(const std::vector<size_t>& sizes, int dmaBuf) {
    fabric_.attach(memory_);
    connect(*device_);
    const MemoryRegion all{.data = memory_.data(), .bytes = memory_.size(), .onGpu = true, .dmaBuf = dmaBuf};
    void* sending = valueOf(sender_->registerMemory(all));
    void* receiving = valueOf(receiver_->registerMemory(all));
    for (const size_t size : sizes) {
      const std::vector<uint8_t> bytes = test::randomBytes(size, static_cast<unsigned>(size));
      std::copy(bytes.begin(), bytes.end(), memory_.live());
      uint8_t* target = memory_.data() + kHalf;
      Request* receive = valueOf(receiver_->post(target, size, receiving));
      ASSERT_FALSE(valueOf(receiver_->test(*receive)).done);
      Request* send = valueOf(sender_->post(memory_.data(), size, sending));
      ASSERT_EQ(pollUntilDone(*sender_, *send), "it is done");
      ASSERT_EQ(pollUntilDone(*receiver_, *receive), "it is done");
      Request* flush = valueOf(receiver_->flushMemory(target, size, receiving));
      ASSERT_NE(flush, nullptr);
      EXPECT_TRUE(valueOf(receiver_->arm())) << "sleeps, though a flush has ended";
      ASSERT_EQ(pollUntilDone(*flush->comm, *flush), "it is done");
      ASSERT_TRUE(std::equal(bytes.begin(), bytes.end(), memory_.live() + kHalf)) << "message of " << size;
    }
    sender_->deregisterMemory(sending);
    receiver_->deregisterMemory(receiving);
  }

  soft::GpuMemory memory_{2 * kHalf};
};

TEST_P(VerbsGpuMemory, RegistersByAddress) {
  open("nvidia_peermem");
  EXPECT_EQ(device_->ptrSupport(), 3);
  pass({1, 64, 100, kPiece, 3 * kPiece + 1, kHalf}, -1);
  EXPECT_EQ(fabric_.flushes(), 6U);
}

TEST_P(VerbsGpuMemory, RegistersAsDmaBuf) {
  fabric_.takeDmaBufs();
  open("");
  EXPECT_EQ(device_->ptrSupport(), 5);
  pass({1, kHalf}, soft::FakeFabric::kDmaBuf);
  close();
  EXPECT_EQ(fabric_.registrations(), 0U);
  EXPECT_EQ(fabric_.queuePairs(), 0U);
}

TEST_P(VerbsGpuMemory, FlushNeedsNoPeer) {
  open("nvidia_peermem");
  connect(*device_);
  void* memory = valueOf(receiver_->registerMemory({.data = memory_.data(), .bytes = 100, .onGpu = true}));
  Request* flush = valueOf(receiver_->flushMemory(memory_.data(), 100, memory));
  sender_.reset();
  fabric_.fail(kReceiver);
  EXPECT_EQ(pollUntilDone(*flush->comm, *flush), "it is done");
  std::vector<uint8_t> host(100);
  void* hosts = valueOf(receiver_->registerMemory({host.data(), host.size()}));
  EXPECT_EQ(valueOf(receiver_->flushMemory(host.data(), 100, hosts)), nullptr) << "memory of the host needs none";
  EXPECT_EQ(valueOf(receiver_->flushMemory(host.data(), 100, nullptr)), nullptr);
}

TEST_P(VerbsGpuMemory, ErrorNamesTheUnsupportedRegistration) {
  using ::testing::HasSubstr;
  open("");
  connect(*device_);
  const MemoryRegion byAddress{.data = memory_.data(), .bytes = 100, .onGpu = true};
  const MemoryRegion asDmaBuf{.data = memory_.data(), .bytes = 100, .onGpu = true, .dmaBuf = soft::FakeFabric::kDmaBuf};
  EXPECT_THAT(sender_->registerMemory(byAddress).error().message(), HasSubstr("load nvidia_peermem"));
  EXPECT_THAT(sender_->registerMemory(asDmaBuf).error().message(), HasSubstr("does not support GPU memory by dma-buf"));
  fabric_.takeDmaBufs();
  open("nvidia_peermem");
  connect(*device_);
  EXPECT_THAT(
      sender_->registerMemory({.data = memory_.data(), .bytes = 100, .onGpu = true, .dmaBuf = 7}).error().message(),
      HasSubstr("registering 100 bytes of GPU memory"));
  void* memory = valueOf(receiver_->registerMemory(byAddress));
  EXPECT_THAT(receiver_->flushMemory(memory_.data() + 1, 100, memory).error().message(),
              HasSubstr("a flush of 100 bytes"));
  Request* beyond = valueOf(receiver_->post(memory_.data() + 1, 100, memory));
  EXPECT_THAT(pollUntilDone(*receiver_, *beyond), HasSubstr("is outside the GPU memory of its registration"));
}

INSTANTIATE_TEST_SUITE_P(By, VerbsGpuMemory, ::testing::Bool(),
                         [](const auto& each) { return each.param ? std::string("write") : std::string("send"); });

// A peer that knows the token and sends invalid data. The test controls the peer's queue pair.
class MalformedPeer : public SoftVerbs {
 protected:
  // Connects the peer to a new local end that has the role `role`. Returns the local end.
  std::unique_ptr<Comm> connectPeer(RdmaDevice::Role role) {
    Sockets sockets;
    const VerbsExtension verbsExtension = device_->verbsExtension();
    const Deadline deadline = Deadline::in(test::kTestTimeout);
    std::unique_ptr<Handshake> handshake =
        valueOf(device_->startHandshake(std::move(sockets.one), role, &verbsExtension, deadline));
    socket_ = std::move(sockets.other);
    QueuePairInfoBytes received{};
    EXPECT_EQ(::recv(socket_.get(), received.data(), received.size(), 0), static_cast<ssize_t>(received.size()));
    QueuePairInfo info = valueOf(parseQueuePairInfo(received));
    ibv_qp_init_attr attributes{};
    attributes.send_cq = &queue_;
    pair_ = fabric_.makePair(device_->domain(), attributes);
    pair_->peer = info.queuePair;
    info.queuePair = pair_->qp_num;
    sendBytes(encodeQueuePairInfo(info));
    sendBytes(encodeNotice({Notice::Kind::kReady, 0, 0}));
    for (int i = 0; i < 64; ++i) fabric_.receive(*pair_, {});
    std::unique_ptr<Comm> comm;
    while (!comm && !deadline.passed()) comm = valueOf(handshake->step());
    return comm;
  }
  template <class Bytes>
  void sendBytes(const Bytes& bytes) {
    EXPECT_EQ(::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
  }
  void send(const void* data, size_t bytes) {
    ibv_sge place{reinterpret_cast<uintptr_t>(data), static_cast<uint32_t>(bytes), 0};
    ibv_send_wr request{};
    request.opcode = IBV_WR_SEND;
    request.sg_list = &place;
    request.num_sge = 1;
    fabric_.send(*pair_, request);
  }
  void writeNothing(uint32_t immediate) {
    ibv_send_wr request{};
    request.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
    request.imm_data = htonl(immediate);
    fabric_.send(*pair_, request);
  }
  // Sends `grants`, which announce receive buffers, to a sender with a message of 100 bytes. Returns the sender's
  // error.
  std::string senderError(const std::vector<Grant>& grants, size_t bytesOfEach = sizeof(Grant)) {
    std::unique_ptr<Comm> comm = connectPeer(RdmaDevice::Role::kSender);
    for (const Grant& grant : grants) send(&grant, bytesOfEach);
    std::vector<uint8_t> bytes(100);
    Request* request = valueOf(comm->post(bytes.data(), bytes.size()));
    for (int i = 0; i < 3; ++i)
      if (std::string outcome = testOutcome(*comm, *request); outcome != "it is not done yet") return outcome;
    return "nothing";
  }
  std::string receiverError(uint32_t immediate, bool posts) {
    std::unique_ptr<Comm> comm = connectPeer(RdmaDevice::Role::kReceiver);
    std::vector<uint8_t> bytes(100);
    Request* request = posts ? valueOf(comm->post(bytes.data(), bytes.size())) : nullptr;
    if (request != nullptr) {
      EXPECT_EQ(testOutcome(*comm, *request), "it is not done yet");
    }
    writeNothing(immediate);
    if (request != nullptr) return testOutcome(*comm, *request);
    Result<bool> armed = comm->arm();
    return armed.ok() ? "nothing" : armed.error().message();
  }

  soft::Queue queue_;
  soft::Pair* pair_ = nullptr;
  UniqueFd socket_;
};

using ::testing::HasSubstr;

TEST_F(MalformedPeer, GrantsAreChecked) {
  EXPECT_THAT(senderError({{.magic = 1}}), HasSubstr("violated the protocol: expected the grant"));
  EXPECT_THAT(senderError({{.number = 1}}), HasSubstr("expected the grant of message 0"));
  EXPECT_THAT(senderError({{}}, sizeof(Grant) - 1), HasSubstr("expected the grant of message 0"));
  EXPECT_THAT(senderError({{.room = kMaxMessageBytes + 1}}), HasSubstr("a receive of 2147483648 bytes"));
  EXPECT_THAT(senderError({{.room = 99}}), HasSubstr("larger than the receive of 99 bytes"));
}

TEST_F(MalformedPeer, TooManyGrantsEndTheConnection) {
  std::unique_ptr<Comm> comm = connectPeer(RdmaDevice::Role::kSender);
  std::vector<uint8_t> bytes(100);
  std::string outcome = "nothing";
  for (uint32_t i = 0; i <= RequestRing::kCapacity && outcome == "nothing"; ++i) {
    const Grant grant{.number = i, .room = 100};
    send(&grant, sizeof grant);
    Result<bool> armed = comm->arm();
    if (!armed.ok()) outcome = armed.error().message();
  }
  EXPECT_THAT(outcome, HasSubstr("too many grants"));
}

TEST_F(MalformedPeer, InvalidRemoteMemoryEndsTheConnection) {
  EXPECT_THAT(senderError({{.address = 4096, .room = 100, .key = 999}}), HasSubstr("connection to"));
}

TEST_F(MalformedPeer, MessageSizesAreChecked) {
  EXPECT_THAT(receiverError(101, true), HasSubstr("violated the protocol: 101 bytes for a receive of 100"));
  EXPECT_THAT(receiverError(10, false), HasSubstr("a message without a grant"));
}

TEST_F(MalformedPeer, NoticesAreChecked) {
  for (const Notice& notice : {Notice{Notice::Kind::kGoodbye, 1, 0}, Notice{Notice::Kind::kTooLarge, 0, 0}}) {
    std::unique_ptr<Comm> comm = connectPeer(RdmaDevice::Role::kSender);
    sendBytes(encodeNotice(notice));
    std::vector<uint8_t> bytes(100);
    Request* request = valueOf(comm->post(bytes.data(), bytes.size()));
    EXPECT_THAT(testOutcome(*comm, *request), HasSubstr("violated the protocol: notice"));
  }
}

}  // namespace
}  // namespace bps::plugin::verbs
