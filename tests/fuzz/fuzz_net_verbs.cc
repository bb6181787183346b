// Fuzzes the parsers of a verbs peer's messages and of the settings that select RDMA devices. A message that a parser
// accepts must still be valid after it is encoded again.
#include <algorithm>
#include <cstdlib>

#include "net_plugin/verbs/port_selection.h"
#include "net_plugin/verbs/wire.h"

namespace {

using namespace bps::plugin::verbs;

void offers(std::span<const uint8_t> bytes) {
  bps::Result<QueuePairInfo> parsed = parseQueuePairInfo(bytes);
  if (!parsed.ok()) return;
  const QueuePairInfo info = std::move(parsed).value();
  if (info.mtu < 1 || info.mtu > 5 || info.queuePair >> 24 != 0 || info.pieceBytes == 0) std::abort();
  if (!parseQueuePairInfo(encodeQueuePairInfo(info)).ok()) std::abort();
}

void notices(std::span<const uint8_t> bytes) {
  bps::Result<Notice> parsed = parseNotice(bytes);
  if (!parsed.ok()) return;
  const NoticeBytes again = encodeNotice(std::move(parsed).value());
  if (!std::equal(again.begin(), again.end(), bytes.begin())) std::abort();
}

void handles(std::span<const uint8_t> bytes) {
  bps::plugin::tcp::HandleBytes handle{};
  std::copy_n(bytes.begin(), std::min(bytes.size(), handle.size()), handle.begin());
  const std::optional<VerbsExtension> verbsExtension = readVerbsExtension(handle);
  if (!verbsExtension) return;
  writeVerbsExtension(handle, *verbsExtension);
  if (!readVerbsExtension(handle)) std::abort();
}

void texts(const std::string& text) {
  bps::Result<HcaFilter> filter = HcaFilter::parse(text);
  if (filter.ok()) std::move(filter).value().selects("mlx5_0", 1);
  GidBytes gid{};
  if (parseGid(text, gid) && gidText(gid).empty()) std::abort();
  if (parseRateMbps(text) <= 0) std::abort();
  parseGuid(text);
  parseState(text);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span<const uint8_t> bytes(data, size);
  offers(bytes);
  notices(bytes);
  handles(bytes);
  texts({reinterpret_cast<const char*>(data), size});
  return 0;
}
