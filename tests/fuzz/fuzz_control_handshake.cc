// Fuzzes each side of the control plane's handshake with a peer that sends arbitrary bytes. The handshake must not
// succeed with a peer that lacks the key.
#include <sys/socket.h>

#include <cstdint>
#include <cstdlib>

#include "src/control/keys/crypto.h"
#include "src/control/link/handshake.h"

namespace {

template <class Handshake>
void face(const uint8_t* data, size_t size) {
  int fds[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) != 0) std::abort();
  const bps::UniqueFd peer(fds[0]);
  bps::Credentials credentials;
  credentials.key.fill(0x5a);
  Handshake handshake(std::make_unique<bps::ControlSocket>(bps::UniqueFd(fds[1])), credentials, bps::Purpose::kJoin, 7);
  [[maybe_unused]] const ssize_t sent = ::send(peer.get(), data, size, MSG_NOSIGNAL);
  for (int turn = 0; turn < 4; ++turn) {
    auto progress = handshake.step();
    if (!progress.ok()) return;
    if (std::move(progress).value() == bps::Progress::kDone) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0 || !bps::cryptoInit().ok()) return 0;
  if ((data[0] & 1) != 0) face<bps::AcceptingHandshake>(data + 1, size - 1);
  else face<bps::ConnectingHandshake>(data + 1, size - 1);
  return 0;
}
