// Fuzzes the parsers of BPS_FABRIC, of its address file and of the messages of relays. What a parser accepts must be
// complete, and a message must be the same after another round trip.
#include <cstdlib>
#include <string>

#include "src/control/relay/relay_messages.h"
#include "src/fabric/address_file.h"
#include "src/fabric/fabric_spec.h"

namespace {

void checkFile(std::string_view text) {
  auto shape = bps::Bcube::create(2, 2);
  if (!shape.ok()) std::abort();
  const bps::Bcube bcube = std::move(shape).value();
  auto parsed = bps::parseAddressFile("file", text, bcube);
  if (!parsed.ok()) return;
  const bps::AddressFile file = std::move(parsed).value();
  if (file.machines.size() != bcube.machines()) std::abort();
  for (const bps::AddressFile::Machine& machine : file.machines)
    if (machine.line == 0 || machine.levels.size() != bcube.k()) std::abort();
}

void checkMessages(std::span<const uint8_t> bytes) {
  if (bytes.size() >= bps::RelayRequest::kBytes) {
    auto request = bps::decodeRelayRequest(bytes.first<bps::RelayRequest::kBytes>());
    if (request.ok() && !bps::decodeRelayRequest(encodeRelay(std::move(request).value())).ok()) std::abort();
  }
  if (bytes.size() >= bps::RelayReply::kBytes) {
    auto reply = bps::decodeRelayReply(bytes.first<bps::RelayReply::kBytes>());
    if (reply.ok() && !bps::decodeRelayReply(encodeRelay(std::move(reply).value())).ok()) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  auto spec = bps::parseFabric(text);
  if (spec.ok()) {
    const std::optional<bps::FabricSpec> fabric = std::move(spec).value();
    if (fabric && (fabric->shape.machines() < 2 || fabric->shape.machines() > bps::Bcube::kMaxMachines)) std::abort();
  }
  checkFile(text);
  checkMessages({data, size});
  return 0;
}
