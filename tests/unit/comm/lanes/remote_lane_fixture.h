// RemoteLaneTest: a RemoteLane over a fake net plugin in memory. The test acts as the owner.
#pragma once
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "src/base/checksum/crc32c.h"
#include "src/comm/lanes/lane.h"
#include "tests/unit/comm/lanes/fake_buffers.h"
#include "tests/unit/net/fake/fake_net.h"

namespace bps::test {

class RemoteLaneTest : public testing::Test {
 protected:
  using Message = FakeLink::Message;
  static constexpr size_t kDepth = 4, kMaxChunkBytes = 64U << 10, kChunkBytes = 16;

  void SetUp() override { make(false); }
  void make(bool checksum) {
    adapter_ = std::make_shared<FakeNet>(std::make_shared<FakeWire>(), FakeNet::Options{.takesGpuMemory = true});
    FakeNet::End push = FakeNet::endOf(adapter_, true), answer = FakeNet::endOf(adapter_, false);
    pushes_ = push.connection;
    answers_ = answer.connection;
    net::PeerConnections connections;
    connections.pushOut = std::move(push.comm);
    connections.answerIn = std::move(answer.comm);
    lane_ = std::move(RemoteLane::create(buffers_, {kDepth, kMaxChunkBytes, checksum}, std::move(connections))).value();
  }
  void submit(size_t chunks, FakeBuffers::Options options = {}) {
    Collective& call = buffers_.add(chunks, kChunkBytes, options);
    for (size_t i = 0; i < chunks; ++i) lane_->submit(call, i);
  }
  void step(int turns = 20) {
    for (; turns > 0; --turns) {
      const Result<bool> moved = lane_->step(lane_->oldestRound());
      ASSERT_TRUE(moved.ok()) << moved.error().message();
    }
  }
  std::string errorOfStep() {
    for (int turn = 0; turn < 3; ++turn)
      if (const Result<bool> moved = lane_->step(lane_->oldestRound()); !moved.ok()) return moved.error().message();
    return "";
  }
  // Receives the next chunk as the owner, and returns its header and payload.
  std::pair<DataHeader, Message> takePush() {
    const Message header = pushes_->there.take();
    const Message payload = pushes_->there.take();
    Result<DataHeader> decoded = decodeDataHeader(header);
    EXPECT_TRUE(decoded.ok());
    return {decoded.ok() ? std::move(decoded).value() : DataHeader(), payload};
  }
  void takePushes(size_t chunks) {
    for (; chunks > 0; --chunks) takePush();
  }
  void answerWith(const DataHeader& header, const Message& payload) {
    DataHeaderBytes encoded;
    const size_t bytes = encode(header, encoded);
    answers_->there.deliver(Message(encoded.begin(), encoded.begin() + bytes));
    answers_->there.deliver(payload);
  }
  static DataHeader headerOf(uint64_t chunk) {
    DataHeader header;
    header.sequence = DataHeader::sequenceForChunk(chunk);
    return header;
  }
  // Returns the header of an answer with the checksum of `sum`.
  static DataHeader checkedHeaderOf(uint64_t chunk, const Message& sum) {
    DataHeader header = headerOf(chunk);
    header.payload = crc32c(sum.data(), sum.size());
    return header;
  }
  void answer(uint64_t chunk) { answerWith(headerOf(chunk), sumOf(chunk)); }
  static Message sumOf(uint64_t chunk) { return Message(kChunkBytes, static_cast<uint8_t>(100 + chunk)); }

  FakeBuffers buffers_;
  std::shared_ptr<FakeNet> adapter_;
  std::shared_ptr<FakeConnection> pushes_, answers_;
  std::unique_ptr<Lane> lane_;
};

}  // namespace bps::test
