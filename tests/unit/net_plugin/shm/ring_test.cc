// Tests the ring of a shared-memory connection: every offset and size around its end, wake-up requests, and corrupt
// positions in the shared header. A corrupt position must cause an error, and no access outside the ring.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <thread>
#include <vector>

#include "net_plugin/shm/ring.h"
#include "tests/unit/net/net_fixture.h"

namespace bps::plugin::shm {
namespace {

using test::randomBytes;
using test::valueOf;

constexpr size_t kCapacity = 64, kMargin = 256;

struct Ring {
  RingMemory memory() { return {&header, bytes.data() + kMargin, kCapacity}; }
  bool marginsUntouched() const {
    const auto untouched = [](uint8_t byte) { return byte == 0xee; };
    return std::all_of(bytes.begin(), bytes.begin() + kMargin, untouched) &&
           std::all_of(bytes.end() - kMargin, bytes.end(), untouched);
  }

  RingHeader header;
  std::vector<uint8_t> bytes = std::vector<uint8_t>(kCapacity + 2 * kMargin, 0xee);
  RingEnd writer{memory(), RingEnd::Side::kWriter}, reader{memory(), RingEnd::Side::kReader};
};

TEST(ShmRing, EverySizeWorksAtEveryOffset) {
  Ring ring;
  for (size_t size = 0; size <= kCapacity; ++size) {
    for (size_t offset = 0; offset < kCapacity; ++offset) {
      const std::vector<uint8_t> sent = randomBytes(size, static_cast<unsigned>(size * 64 + offset));
      std::vector<uint8_t> got(size);
      ASSERT_EQ(valueOf(ring.writer.available(kCapacity)), kCapacity);
      ring.writer.write(sent.data(), size);
      ASSERT_FALSE(ring.writer.publish());
      ASSERT_EQ(valueOf(ring.writer.available(kCapacity)), kCapacity - size);
      ASSERT_EQ(valueOf(ring.reader.available(kCapacity)), size);
      ring.reader.read(got.data(), size);
      ASSERT_FALSE(ring.reader.publish());
      ASSERT_EQ(got, sent) << size << " bytes at " << offset;
      ASSERT_GE(valueOf(ring.writer.available(1)), 1U);
      ring.writer.write(sent.data(), size > 0 ? 1 : 0);  // makes the next iteration start one byte later
      ASSERT_FALSE(ring.writer.publish());
      ring.reader.read(got.data(), valueOf(ring.reader.available(1)));
      ASSERT_FALSE(ring.reader.publish());
    }
  }
  EXPECT_TRUE(ring.marginsUntouched());
}

TEST(ShmRing, NothingIsSeenBeforeItIsPublished) {
  Ring ring;
  const std::array<uint8_t, 3> bytes{1, 2, 3};
  ring.writer.write(bytes.data(), bytes.size());
  EXPECT_EQ(ring.writer.unpublished(), 3U);
  EXPECT_EQ(valueOf(ring.reader.available(1)), 0U);
  EXPECT_FALSE(ring.writer.publish());
  EXPECT_EQ(valueOf(ring.reader.available(1)), 3U);
  std::array<uint8_t, 3> got{};
  ring.reader.read(got.data(), got.size());
  EXPECT_EQ(valueOf(ring.writer.available(kCapacity)), kCapacity - 3) << "read and not published yet";
}

TEST(ShmRing, AReaderIsWokenOnceAndOnlyOnRequest) {
  Ring ring;
  const std::array<uint8_t, 10> bytes{};
  EXPECT_FALSE(valueOf(ring.reader.requestWake(10)));
  ring.writer.write(bytes.data(), 9);
  EXPECT_FALSE(ring.writer.publish()) << "one byte too few";
  ring.writer.write(bytes.data(), 1);
  EXPECT_TRUE(ring.writer.publish());
  ring.writer.write(bytes.data(), 10);
  EXPECT_FALSE(ring.writer.publish()) << "it is awake";
  EXPECT_FALSE(ring.reader.cancelWakeRequest()) << "the wake-up was on its way";
  EXPECT_TRUE(valueOf(ring.reader.requestWake(20))) << "they are there";
  EXPECT_TRUE(ring.reader.cancelWakeRequest());
  EXPECT_FALSE(valueOf(ring.reader.requestWake(21)));
}

TEST(ShmRing, AWriterIsWokenWhenThereIsRoom) {
  Ring ring;
  std::array<uint8_t, kCapacity> bytes{};
  EXPECT_TRUE(valueOf(ring.writer.requestWake(kCapacity))) << "an empty ring";
  EXPECT_TRUE(ring.writer.cancelWakeRequest());
  ring.writer.write(bytes.data(), kCapacity);
  EXPECT_FALSE(ring.writer.publish());
  EXPECT_FALSE(valueOf(ring.writer.requestWake(32)));
  ASSERT_EQ(valueOf(ring.reader.available(kCapacity)), kCapacity);
  ring.reader.read(bytes.data(), 31);
  EXPECT_FALSE(ring.reader.publish());
  ring.reader.read(bytes.data(), 1);
  EXPECT_TRUE(ring.reader.publish());
}

// If the shared header contains an invalid position, the end that reads the header must return an error.
TEST(ShmRing, AnInvalidPositionIsRefused) {
  for (const uint64_t wrong : {uint64_t{kCapacity} + 21, uint64_t{19}, UINT64_MAX, UINT64_MAX / 2}) {
    Ring ring;
    std::array<uint8_t, 20> bytes{};
    ring.writer.write(bytes.data(), bytes.size());
    EXPECT_FALSE(ring.writer.publish());
    ASSERT_EQ(valueOf(ring.reader.available(20)), 20U);
    ring.reader.read(bytes.data(), 20);
    ring.header.written = wrong;
    Result<size_t> available = ring.reader.available(1);
    ASSERT_FALSE(available.ok()) << wrong;
    EXPECT_EQ(available.error().code(), Code::kRemote);
    EXPECT_NE(std::string(available.error().message()).find("the ring is corrupt"), std::string::npos);
    EXPECT_FALSE(ring.reader.requestWake(1).ok());
  }
  for (const uint64_t wrong : {uint64_t{21}, uint64_t{kCapacity} + 21, UINT64_MAX / 2}) {  // only 20 bytes are written
    Ring ring;
    std::array<uint8_t, 20> bytes{};
    ring.writer.write(bytes.data(), bytes.size());
    EXPECT_FALSE(ring.writer.publish());
    ring.header.read = wrong;
    EXPECT_FALSE(ring.writer.available(kCapacity).ok()) << wrong;
    EXPECT_FALSE(ring.writer.requestWake(kCapacity).ok()) << wrong;
  }
}

TEST(ShmRing, CorruptHeadersCauseNoAccessOutsideTheRing) {
  std::minstd_rand random(3);
  Ring ring;
  RingEnd writer = ring.writer, reader = ring.reader;
  std::array<uint8_t, kCapacity> buffer{};
  for (int i = 0; i < 100000; ++i) {
    for (std::atomic<uint64_t>* each : {&ring.header.written, &ring.header.read, &ring.header.wakeReader})
      *each = random() % 3 == 0 ? writer.position() + random() % 130 - 65 : uint64_t{random()} << (random() % 33);
    Result<size_t> room = writer.available(1 + random() % kCapacity),
                   there = reader.available(1 + random() % kCapacity);
    if (room.ok()) writer.write(buffer.data(), std::min(std::move(room).value(), buffer.size()));
    if (there.ok()) reader.read(buffer.data(), std::min(std::move(there).value(), buffer.size()));
    [[maybe_unused]] const bool woke = writer.publish() || reader.publish();
  }
  EXPECT_TRUE(ring.marginsUntouched());
}

// Both ends are in one process. So ThreadSanitizer can check that the positions in the header order all accesses to the
// ring's bytes.
TEST(ShmRing, TwoThreadsCanStreamConcurrently) {
  Ring ring;
  const std::vector<uint8_t> sent = randomBytes(200000, 1);
  std::vector<uint8_t> got(sent.size());
  std::jthread writer([&] {
    for (size_t at = 0; at < sent.size();) {
      const size_t part = std::min({valueOf(ring.writer.available(1)), sent.size() - at, size_t{37}});
      ring.writer.write(sent.data() + at, part);
      [[maybe_unused]] const bool woke = ring.writer.publish();
      if (part == 0) std::this_thread::yield();
      at += part;
    }
  });
  for (size_t at = 0; at < got.size();) {
    const size_t part = std::min(valueOf(ring.reader.available(1)), got.size() - at);
    ring.reader.read(got.data() + at, part);
    [[maybe_unused]] const bool woke = ring.reader.publish();
    if (part == 0) std::this_thread::yield();
    at += part;
  }
  writer.join();
  EXPECT_EQ(got, sent);
}

}  // namespace
}  // namespace bps::plugin::shm
