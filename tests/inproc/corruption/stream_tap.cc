#include "tests/inproc/corruption/stream_tap.h"

#include <dlfcn.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <string_view>

#include "src/base/io/socket.h"
#include "src/base/log.h"

namespace bps::test {
namespace {

struct TapState {
  std::atomic<bool> armed{false};
  std::mutex mutex;
  uint64_t byte = 0, passed = 0;
  unsigned bit = 0;
  Flip flip;
  std::map<std::string, std::string> senders;  // the key is "from to", the two addresses of a connection
};

TapState& tap() {
  static TapState instance;
  return instance;
}

bool isPlugin(const void* caller) {
  Dl_info info{};
  return ::dladdr(caller, &info) != 0 && info.dli_fname != nullptr &&
         std::string_view(info.dli_fname).find("libnccl-net-bps") != std::string_view::npos;
}

std::string addressOf(int socket, bool peer) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  if ((peer ? ::getpeername(socket, generic, &size) : ::getsockname(socket, generic, &size)) != 0) return {};
  if (address.ss_family != AF_INET && address.ss_family != AF_INET6) return {};
  return Address(generic, size).text();
}

void noteSender(int socket, const void* caller) {
  if (!tap().armed.load() || !isPlugin(caller)) return;
  const std::string from = addressOf(socket, false);
  if (from.empty()) return;
  const std::lock_guard lock(tap().mutex);
  tap().senders[from + " " + addressOf(socket, true)] = logThreadName();
}

void flipIn(msghdr& message, uint64_t at) {
  TapState& t = tap();
  for (size_t i = 0; i < message.msg_iovlen; ++i) {
    if (at >= message.msg_iov[i].iov_len) {
      at -= message.msg_iov[i].iov_len;
      continue;
    }
    auto* byte = static_cast<uint8_t*>(message.msg_iov[i].iov_base) + at;
    *byte = static_cast<uint8_t>(*byte ^ (1U << t.bit));
    return;
  }
}

void pass(int socket, msghdr& message, size_t bytes, const void* caller) {
  TapState& t = tap();
  if (!t.armed.load() || !isPlugin(caller)) return;
  const std::string here = addressOf(socket, false);
  if (here.empty()) return;
  const std::lock_guard lock(t.mutex);
  const uint64_t before = t.passed;
  t.passed += bytes;
  if (t.flip.done || t.byte < before || t.byte >= t.passed) return;
  flipIn(message, t.byte - before);
  t.flip = {true, logThreadName(), t.senders[addressOf(socket, true) + " " + here]};
}

template <class F>
F libc(const char* name) {
  return reinterpret_cast<F>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

void armTap(uint64_t byte, unsigned bit) {
  TapState& t = tap();
  const std::lock_guard lock(t.mutex);
  t.byte = byte;
  t.bit = bit;
  t.passed = 0;
  t.flip = {};
  t.senders.clear();
  t.armed.store(true);
}

Flip disarmTap() {
  const std::lock_guard lock(tap().mutex);
  tap().armed.store(false);
  return tap().flip;
}

}  // namespace bps::test

// These functions replace the functions of libc in the whole process.
#pragma GCC visibility push(default)
extern "C" {

ssize_t recv(int socket, void* data, size_t size, int flags) {
  static const auto real = bps::test::libc<ssize_t (*)(int, void*, size_t, int)>("recv");
  const ssize_t got = real(socket, data, size, flags);
  if (got <= 0 || (flags & MSG_PEEK) != 0) return got;
  iovec piece{data, static_cast<size_t>(got)};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  bps::test::pass(socket, message, static_cast<size_t>(got), __builtin_return_address(0));
  return got;
}

ssize_t recvmsg(int socket, msghdr* message, int flags) {
  static const auto real = bps::test::libc<ssize_t (*)(int, msghdr*, int)>("recvmsg");
  const ssize_t got = real(socket, message, flags);
  if (got > 0 && (flags & MSG_PEEK) == 0)
    bps::test::pass(socket, *message, static_cast<size_t>(got), __builtin_return_address(0));
  return got;
}

ssize_t send(int socket, const void* data, size_t size, int flags) {
  static const auto real = bps::test::libc<ssize_t (*)(int, const void*, size_t, int)>("send");
  bps::test::noteSender(socket, __builtin_return_address(0));
  return real(socket, data, size, flags);
}

ssize_t sendmsg(int socket, const msghdr* message, int flags) {
  static const auto real = bps::test::libc<ssize_t (*)(int, const msghdr*, int)>("sendmsg");
  bps::test::noteSender(socket, __builtin_return_address(0));
  return real(socket, message, flags);
}
}
#pragma GCC visibility pop
