#include "src/base/checksum/crc32c.h"

#include <array>
#include <bit>
#include <cstring>

#if defined(__aarch64__)
#include <sys/auxv.h>
#endif

namespace bps {
namespace {

constexpr uint32_t kPolynomial = 0x82f63b78;  // bit-reversed: bit 0 is the coefficient of the highest power
constexpr size_t kWord = sizeof(uint64_t);

using Table = std::array<uint32_t, 256>;
template <size_t N>
using Tables = std::array<Table, N>;

// tables[k][b] is the value that byte b adds to the checksum if k more bytes follow it.
constexpr Tables<kWord> byteTables() {
  Tables<kWord> tables{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? kPolynomial : 0);
    tables[0][byte] = crc;
  }
  for (size_t k = 1; k < kWord; ++k)
    for (size_t byte = 0; byte < 256; ++byte)
      tables[k][byte] = (tables[k - 1][byte] >> 8) ^ tables[0][tables[k - 1][byte] & 0xff];
  return tables;
}

constexpr Tables<kWord> kByteTables = byteTables();

static_assert(std::endian::native == std::endian::little);
uint64_t loadWord(const uint8_t* at) {
  uint64_t word = 0;
  std::memcpy(&word, at, kWord);
  return word;
}

// Advances a checksum over `bytes` zero bytes. The operation is linear over GF(2). The results for
// the four bytes of the checksum can therefore be looked up separately and XORed.
struct Shift {
  Tables<4> tables{};

  explicit Shift(size_t bytes) {
    for (uint32_t bit = 0; bit < 32; ++bit) {
      uint32_t crc = uint32_t{1} << bit;
      for (size_t i = 0; i < bytes; ++i) crc = (crc >> 8) ^ kByteTables[0][crc & 0xff];
      for (size_t byte = 0; byte < 256; ++byte)
        if ((byte >> (bit % 8) & 1) != 0) tables[bit / 8][byte] ^= crc;
    }
  }
  uint32_t operator()(uint32_t crc) const {
    return tables[0][crc & 0xff] ^ tables[1][crc >> 8 & 0xff] ^ tables[2][crc >> 16 & 0xff] ^ tables[3][crc >> 24];
  }
};

#if defined(__x86_64__)
#define BPS_CRC_CODE __attribute__((target("sse4.2")))
BPS_CRC_CODE inline uint64_t addWord(uint64_t crc, uint64_t word) { return __builtin_ia32_crc32di(crc, word); }
BPS_CRC_CODE inline uint64_t addByte(uint64_t crc, uint8_t byte) {
  return __builtin_ia32_crc32qi(static_cast<uint32_t>(crc), byte);
}
bool hasInstruction() { return __builtin_cpu_supports("sse4.2"); }
#elif defined(__aarch64__)
#define BPS_CRC_CODE
inline uint64_t addWord(uint64_t crc, uint64_t word) {
  asm(".arch_extension crc\n\tcrc32cx %w0, %w0, %x1" : "+r"(crc) : "r"(word));
  return crc;
}
inline uint64_t addByte(uint64_t crc, uint8_t byte) {
  asm(".arch_extension crc\n\tcrc32cb %w0, %w0, %w1" : "+r"(crc) : "r"(static_cast<uint32_t>(byte)));
  return crc;
}
bool hasInstruction() { return (::getauxval(AT_HWCAP) & HWCAP_CRC32) != 0; }
#else
#define BPS_CRC_CODE
uint64_t addWord(uint64_t crc, uint64_t) { return crc; }
uint64_t addByte(uint64_t crc, uint8_t) { return crc; }
bool hasInstruction() { return false; }
#endif

// The CRC instruction has a latency of three cycles and a throughput of one per cycle. The function
// therefore processes three independent parts of a block at once, and then combines their
// checksums.
BPS_CRC_CODE uint64_t addBlocks(uint64_t crc, const uint8_t*& at, size_t& left, size_t part) {
  static const Shift longShift(4096), shortShift(256);
  const Shift& shift = part == 4096 ? longShift : shortShift;
  for (; left >= 3 * part; left -= 3 * part, at += 3 * part) {
    uint64_t second = 0, third = 0;
    for (size_t i = 0; i < part; i += kWord) {
      crc = addWord(crc, loadWord(at + i));
      second = addWord(second, loadWord(at + part + i));
      third = addWord(third, loadWord(at + 2 * part + i));
    }
    crc = shift(static_cast<uint32_t>(crc)) ^ static_cast<uint32_t>(second);
    crc = shift(static_cast<uint32_t>(crc)) ^ static_cast<uint32_t>(third);
  }
  return crc;
}

}  // namespace

namespace crc {

bool hardwareAvailable() { return hasInstruction(); }

BPS_CRC_CODE uint32_t hardwareCrc32c(const void* data, size_t bytes, uint32_t before) {
  const auto* at = static_cast<const uint8_t*>(data);
  uint64_t crc = ~before;
  for (const size_t part : {size_t{4096}, size_t{256}}) crc = addBlocks(crc, at, bytes, part);
  for (; bytes >= kWord; bytes -= kWord, at += kWord) crc = addWord(crc, loadWord(at));
  for (; bytes > 0; --bytes, ++at) crc = addByte(crc, *at);
  return ~static_cast<uint32_t>(crc);
}

uint32_t tableCrc32c(const void* data, size_t bytes, uint32_t before) {
  const auto* at = static_cast<const uint8_t*>(data);
  uint32_t crc = ~before;
  for (; bytes >= kWord; bytes -= kWord, at += kWord) {
    const uint64_t word = loadWord(at) ^ crc;
    crc = 0;
    for (size_t i = 0; i < kWord; ++i) crc ^= kByteTables[kWord - 1 - i][word >> (8 * i) & 0xff];
  }
  for (; bytes > 0; --bytes, ++at) crc = (crc >> 8) ^ kByteTables[0][(crc ^ *at) & 0xff];
  return ~crc;
}

}  // namespace crc

uint32_t crc32c(const void* data, size_t bytes, uint32_t before) {
  static const bool hardware = crc::hardwareAvailable();
  return hardware ? crc::hardwareCrc32c(data, bytes, before) : crc::tableCrc32c(data, bytes, before);
}

}  // namespace bps
