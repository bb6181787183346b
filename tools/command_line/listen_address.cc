#include "tools/command_line/listen_address.h"

#include "src/base/format.h"
#include "src/base/io/host_lookup.h"
#include "src/base/io/interfaces.h"

namespace bps {
namespace {

Result<Address> addressOf(const ListenOption& option) {
  const std::string& text = option.text;
  const bool portAlone = !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
  if (portAlone)
    return failure(Code::kInvalidArgument,
                   "a port alone; use ADDR:{0} with an address of this machine, or 0.0.0.0:{0} for all addresses",
                   text);
  const HostPort where = BPS_TRY(parseHostPort(text, option.defaultPort));
  // selectInterfaces also accepts addresses.
  Result<std::vector<Interface>> selected = selectInterfaces("=" + where.host);
  if (selected.ok()) {
    const Interface found = std::move(selected).value().front();
    Address address = found.address;
    address.setPort(where.port);
    if (found.name == where.host)
      return failure(Code::kInvalidArgument, "{} is an interface; use its address: {}", where.host, address.text());
  }
  return BPS_TRY(resolve(where, Deadline::in(std::chrono::seconds(10)))).front();
}

}  // namespace

Result<Address> listenAddress(const ListenOption& option) {
  Result<Address> address = addressOf(option);
  if (!address.ok()) return std::move(address).status().within(option.name + " " + option.text);
  return address;
}

}  // namespace bps
