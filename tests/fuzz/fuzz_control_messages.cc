// Fuzzes the decoder of every message type of the control plane. The first byte of the input selects the type. A
// message that the decoder accepts must encode to the same bytes.
#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "src/wire/control_messages.h"
#include "src/wire/status_report.h"

namespace {

template <class T>
void tryAs(std::span<const uint8_t> bytes) {
  auto decoded = bps::decode<T>(bytes);
  if (!decoded.ok()) return;
  const bps::Blob again = bps::encode(std::move(decoded).value());
  if (!std::equal(again.begin(), again.end(), bytes.begin(), bytes.end())) std::abort();
}

template <class... T>
void tryOne(size_t which, std::span<const uint8_t> bytes) {
  using Try = void (*)(std::span<const uint8_t>);
  constexpr Try kTries[] = {&tryAs<T>...};
  kTries[which % sizeof...(T)](bytes);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  using namespace bps;
  tryOne<Hello, Challenge, ProofMessage, Welcome, Refusal, RendezvousRequest, RendezvousReply, Join, Offer, OpenJob,
         JobOpened, ControlOpInput, ControlOpResult, FailureMessage, Suspect, Left, ProbeDevice, ProbeOpen, ProbeOpened,
         ProbeRate, CheckReport, Heartbeat, StatusReport>(data[0], {data + 1, size - 1});
  return 0;
}
