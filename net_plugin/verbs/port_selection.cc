#include "net_plugin/verbs/port_selection.h"

#include <algorithm>
#include <charconv>
#include <string_view>

#include "src/base/format.h"

namespace bps::plugin::verbs {
namespace {

bool isLinkLocal(const GidBytes& gid) { return gid[0] == 0xfe && (gid[1] & 0xc0) == 0x80; }

// Returns the preference for a GID. chooseGid() chooses the GID with the largest value.
int gidPreference(const Gid& gid) {
  const int reach = isIpv4(gid.bytes) ? 2 : isLinkLocal(gid.bytes) ? 0 : 1;
  return gid.routable ? 3 + reach : reach;
}

}  // namespace

Result<HcaFilter> HcaFilter::parse(const std::string& text) {
  HcaFilter filter;
  std::string_view rest = text;
  const auto eat = [&](char c) {
    return rest.substr(0, 1) == std::string_view(&c, 1) && (rest.remove_prefix(1), true);
  };
  filter.exclude_ = eat('^');
  filter.exact_ = eat('=');
  while (!rest.empty()) {
    const std::string_view item = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), item.size() + 1));
    if (item.empty()) continue;
    const size_t colon = item.find(':');
    Entry entry{std::string(item.substr(0, colon)), std::nullopt};
    if (colon != std::string_view::npos) {
      const std::string_view number = item.substr(colon + 1);
      int port = 0;
      const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), port);
      if (error != std::errc{} || end != number.data() + number.size() || port < 1 || port > 255)
        return failure(Code::kInvalidArgument, "{}: \"{}\" is not a port (1 to 255)", text, number);
      entry.port = port;
    }
    if (entry.name.empty()) return failure(Code::kInvalidArgument, "{}: \"{}\" names no device", text, item);
    filter.entries_.push_back(std::move(entry));
  }
  return filter;
}

bool HcaFilter::selects(const std::string& device, int port) const {
  if (entries_.empty()) return true;
  const bool named = std::any_of(entries_.begin(), entries_.end(), [&](const Entry& entry) {
    const bool same = exact_ ? device == entry.name : device.compare(0, entry.name.size(), entry.name) == 0;
    return same && (!entry.port || *entry.port == port);
  });
  return named != exclude_;
}

Result<Gid> chooseGid(const Port& port, int index, const GidBytes* peerGid) {
  if (port.link == LinkLayer::kInfiniBand && index < 0) index = 0;
  const Gid* best = nullptr;
  for (const Gid& gid : port.gids) {
    if (index >= 0 && gid.index != index) continue;
    if (index < 0 && peerGid != nullptr && isIpv4(gid.bytes) != isIpv4(*peerGid)) continue;
    if (best == nullptr || gidPreference(gid) > gidPreference(*best)) best = &gid;
  }
  if (best != nullptr) return *best;
  if (index >= 0) return failure(Code::kInvalidArgument, "it has no GID {} (NCCL_IB_GID_INDEX)", index);
  if (peerGid != nullptr)
    return failure(Code::kRemote, "it has no GID of the same family as the peer's, {}", gidText(*peerGid));
  return Status(Code::kSystem, "it has no GID: give its interface an address");
}

std::vector<PortChoice> choosePorts(const std::vector<Port>& ports, const HcaFilter& filter, int gidIndex,
                                    std::vector<SkippedPort>& skipped) {
  std::vector<PortChoice> choices;
  for (const Port& port : ports) {
    if (!filter.selects(port.device, port.number)) continue;
    if (port.state != "ACTIVE") {
      skipped.push_back({port.name(), "its state is " + port.state + ", not ACTIVE"});
      continue;
    }
    Result<Gid> gid = chooseGid(port, gidIndex);
    if (gid.ok()) choices.push_back({port, std::move(gid).value()});
    else skipped.push_back({port.name(), gid.error().message()});
  }
  return choices;
}

}  // namespace bps::plugin::verbs
