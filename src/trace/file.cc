#include "src/trace/file.h"

#include <algorithm>
#include <cmath>

#include "src/base/checksum/crc32c.h"
#include "src/base/format.h"

namespace bps::trace {
namespace {

constexpr std::string_view kMagic = "bpstrace";
constexpr size_t kPrefixBytes = 8 + 4 + 8, kChecksumBytes = 4;
constexpr size_t kMostEndpoints = kExchangePath, kMostRanks = 1U << 20;

std::span<const uint8_t> bytesOf(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

void putHeader(WireWriter& out, const Header& header) {
  out.put(static_cast<uint8_t>(header.server)).put(header.number).put(header.endpoint).put(header.job);
  out.put(header.host).put(header.pid).put(header.machines).put(header.ranks);
  out.put(static_cast<uint32_t>(header.names.size()));
  for (size_t i = 0; i < header.names.size(); ++i) out.put(header.names[i]).put(header.rates[i]);
}

Result<Header> getHeader(WireReader& in) {
  Header header;
  const auto server = in.get<uint8_t>();
  if (server > 1) return failure(Code::kInvalidArgument, "{} is no kind of process", server);
  header.server = server == 1;
  header.number = in.get<uint32_t>();
  header.endpoint = in.get<uint32_t>();
  header.job = in.get<uint64_t>();
  header.host = in.getString();
  header.pid = in.get<uint32_t>();
  header.machines = in.get<uint32_t>();
  header.ranks = in.get<uint32_t>();
  const size_t endpoints = in.getCount(4 + 8);
  for (size_t i = 0; i < endpoints; ++i) {
    header.names.push_back(in.getString());
    header.rates.push_back(in.getDouble());
  }
  return header;
}

Status check(const Header& header) {
  const size_t endpoints = header.names.size();
  const bool rates = std::all_of(header.rates.begin(), header.rates.end(),
                                 [](double rate) { return std::isfinite(rate) && rate >= 0; });
  const bool good = header.machines > 0 && header.machines <= endpoints && endpoints <= kMostEndpoints &&
                    header.ranks >= header.machines && header.ranks <= kMostRanks && header.endpoint < endpoints &&
                    header.server == (header.endpoint >= header.machines) && rates &&
                    (header.server || header.number < header.ranks);
  return good ? Status() : Status(Code::kInvalidArgument, "the description of the communicator is not valid");
}

Status check(const Event& event, const Header& header) {
  const auto stage = static_cast<uint8_t>(event.stage);
  const bool peer = event.peer == kNoPeer || event.peer == kExchangePath || event.peer < header.names.size();
  const bool reached = !header.server || event.stage >= Stage::kArrived;  // a server makes no calls
  if (stage >= 1 && stage <= kMostStage && peer && reached) return {};
  return failure(Code::kInvalidArgument, "an event with stage {} and peer {} is not valid in it", stage, event.peer);
}

Result<File> decodePayload(std::span<const uint8_t> payload) {
  WireReader in(payload);
  File file;
  file.header = BPS_TRY(getHeader(in));
  const size_t points = in.getCount(3 * 8);
  for (size_t i = 0; i < points; ++i) {
    ClockPoint& point = file.clock.emplace_back();
    point.at = in.get<uint64_t>();
    point.ahead = in.get<int64_t>();
    point.uncertainty = in.get<uint64_t>();
  }
  file.lost = in.get<uint64_t>();
  const size_t events = in.getCount(kEventBytes);
  BPS_TRY(check(file.header));
  file.events.reserve(events);
  for (size_t i = 0; i < events; ++i) {
    Event event;
    event.time = in.get<uint64_t>();
    event.call = in.get<uint64_t>();
    event.bytes = in.get<uint64_t>();
    event.sequence = in.get<uint32_t>();
    event.peer = in.get<uint16_t>();
    event.stage = in.get<Stage>();
    event.rail = in.get<uint8_t>();
    BPS_TRY(check(event, file.header));
    file.events.push_back(event);
  }
  BPS_TRY(in.finish("trace"));
  return file;
}

}  // namespace

Blob encode(const File& file) {
  WireWriter payload;
  putHeader(payload, file.header);
  payload.put(static_cast<uint32_t>(file.clock.size()));
  for (const ClockPoint& point : file.clock) payload.put(point.at).put(point.ahead).put(point.uncertainty);
  payload.put(file.lost);
  payload.put(static_cast<uint32_t>(file.events.size()));
  for (const Event& event : file.events)
    payload.put(event.time)
        .put(event.call)
        .put(event.bytes)
        .put(event.sequence)
        .put(event.peer)
        .put(event.stage)
        .put(event.rail);
  const Blob& bytes = payload.bytes();
  WireWriter out;
  out.putRaw(bytesOf(kMagic)).put(kFileVersion).put(static_cast<uint64_t>(bytes.size())).putRaw(bytes);
  out.put(crc32c(bytes.data(), bytes.size()));
  return std::move(out).take();
}

Result<File> decodeFile(std::span<const uint8_t> bytes) {
  if (bytes.empty())
    return Status(Code::kInvalidArgument, "is empty: the process ended before its communicator did, or still runs");
  if (bytes.size() < kPrefixBytes || !std::equal(kMagic.begin(), kMagic.end(), bytes.begin()))
    return Status(Code::kInvalidArgument, "is not a trace of bps (BPS_TRACE writes them)");
  WireReader in(bytes.subspan(kMagic.size()));
  const auto version = in.get<uint32_t>();
  if (version != kFileVersion)
    return failure(Code::kInvalidArgument, "has version {} of the format, this program reads version {}", version,
                   kFileVersion);
  const auto length = in.get<uint64_t>();
  const size_t there = bytes.size() - kPrefixBytes;
  if (there < kChecksumBytes || length != there - kChecksumBytes)
    return failure(Code::kInvalidArgument, "is cut off or too long: {} bytes follow its start, expected {}", there,
                   length + kChecksumBytes);
  const auto payload = bytes.subspan(kPrefixBytes, length);
  WireReader checksum(bytes.last(kChecksumBytes));
  if (checksum.get<uint32_t>() != crc32c(payload.data(), payload.size()))
    return Status(Code::kInvalidArgument, "is damaged: its checksum is wrong");
  return decodePayload(payload);
}

}  // namespace bps::trace
