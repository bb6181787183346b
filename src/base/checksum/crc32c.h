// CRC32C (Castagnoli polynomial, as in iSCSI and ext4): the checksum of data in transit.
//
// CRC32C detects every error that is confined to 32 consecutive bits. If the CPU has a CRC
// instruction (SSE4.2, Armv8 CRC), the implementation uses that instruction, and otherwise it uses
// lookup tables. Any thread may call these functions.
#pragma once
#include <cstddef>
#include <cstdint>

namespace bps {

// Returns the checksum of the bytes whose checksum is `before`, followed by the `bytes` bytes at
// `data`. For example, crc32c(b, n, crc32c(a, m)) is the checksum of a followed by b.
uint32_t crc32c(const void* data, size_t bytes, uint32_t before = 0);

namespace crc {
// The two implementations, for tests. hardwareCrc32c() requires hardwareAvailable().
bool hardwareAvailable();
uint32_t hardwareCrc32c(const void* data, size_t bytes, uint32_t before);
uint32_t tableCrc32c(const void* data, size_t bytes, uint32_t before);
}  // namespace crc

}  // namespace bps
