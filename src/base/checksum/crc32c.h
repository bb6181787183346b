// CRC32C (Castagnoli's polynomial, as in iSCSI and ext4): the checksum of data on its way. It detects every change of
// one bit, and every change that is confined to 32 consecutive bits.
//
// The CPU's instruction is used where it exists (SSE4.2, Armv8 CRC), chosen at run time; else tables. Any thread.
#pragma once
#include <cstddef>
#include <cstdint>

namespace bps {

// Of `bytes` bytes that follow those whose checksum is `before`: crc32c(b, n, crc32c(a, m)) is that of a and b
// together.
uint32_t crc32c(const void* data, size_t bytes, uint32_t before = 0);

namespace crc {
// The two ways, for tests. The first is only to be called if available() says so.
bool hardwareAvailable();
uint32_t hardwareCrc32c(const void* data, size_t bytes, uint32_t before);
uint32_t tableCrc32c(const void* data, size_t bytes, uint32_t before);
}  // namespace crc

}  // namespace bps
