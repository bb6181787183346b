// CRC32C (Castagnoli polynomial, as in iSCSI and ext4): the checksum of data in transit.
//
// It detects every error that is confined to 32 consecutive bits. The implementation is chosen at run time: the CPU's
// CRC instruction if it has one (SSE4.2, Armv8 CRC), otherwise lookup tables. May be called from any thread.
#pragma once
#include <cstddef>
#include <cstdint>

namespace bps {

// Returns the checksum of `bytes` bytes appended to data whose checksum is `before`: crc32c(b, n, crc32c(a, m)) is the
// checksum of a followed by b.
uint32_t crc32c(const void* data, size_t bytes, uint32_t before = 0);

namespace crc {
// The two implementations, for tests. hardwareCrc32c() requires hardwareAvailable().
bool hardwareAvailable();
uint32_t hardwareCrc32c(const void* data, size_t bytes, uint32_t before);
uint32_t tableCrc32c(const void* data, size_t bytes, uint32_t before);
}  // namespace crc

}  // namespace bps
