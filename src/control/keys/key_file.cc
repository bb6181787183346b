#include "src/control/keys/key_file.h"

#include <fcntl.h>
#include <sodium.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "src/base/format.h"
#include "src/base/io/fd.h"
#include "src/base/mutex.h"
#include "src/control/keys/crypto.h"

namespace bps {
namespace {

constexpr mode_t kOwnerOnly = S_IRUSR | S_IWUSR;
constexpr size_t kHexDigits = 2 * std::tuple_size_v<Key>;
// The salt is constant, because the processes share nothing but the key file. The salt prevents attackers from using
// tables that were computed for other programs.
constexpr std::array<uint8_t, crypto_pwhash_SALTBYTES> kSalt{'b', 'p', 's', ' ', 'p', 'a', 's', 's',
                                                             '-', 'p', 'h', 'r', 'a', 's', 'e', '1'};

Result<Blob> bytesOf(int fd, const std::string& path) {
  Blob bytes(kMaxKeyFileBytes + 1);
  size_t have = 0;
  while (have < bytes.size()) {
    const ssize_t count = ::read(fd, bytes.data() + have, bytes.size() - have);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return systemFailure(fmt::format("key file {}", path), errno);
    if (count == 0) break;
    have += static_cast<size_t>(count);
  }
  bytes.resize(have);
  return bytes;
}

Status checkMode(int fd, const std::string& path) {
  struct stat info {};
  if (::fstat(fd, &info) != 0) return systemFailure(fmt::format("key file {}", path), errno);
  if (!S_ISREG(info.st_mode) || (info.st_mode & (S_IRWXG | S_IRWXO)) == 0) return {};
  return failure(Code::kInvalidArgument,
                 "key file {}: others than its owner can access it (mode {:04o}): chmod 600 {}, or set "
                 "BPS_KEY_FILE_SHARED=1 if that is intended",
                 path, info.st_mode & 07777U, path);
}

// True if the bytes are UTF-8 text without control characters other than white space. Random bytes almost never form
// such a text.
bool isText(const Blob& bytes) {
  size_t following = 0;  // continuation bytes that the current character still needs
  for (const uint8_t c : bytes) {
    const bool continues = (c & 0xc0) == 0x80;
    if (continues != (following > 0)) return false;
    if (continues) --following;
    else if (c >= 0xc2 && c <= 0xf4) following = c < 0xe0 ? 1 : c < 0xf0 ? 2 : 3;
    else if (c >= 0x7f || (c < 0x20 && (c < '\t' || c > '\r'))) return false;
  }
  return following == 0;
}

void trimEnd(Blob& text) {
  constexpr std::string_view kBlank = " \t\r\n\v\f";
  while (!text.empty() && kBlank.find(static_cast<char>(text.back())) != std::string_view::npos) text.pop_back();
}

bool isHexKey(const Blob& text, Key& key) {
  size_t length = 0;
  return text.size() == kHexDigits &&
         sodium_hex2bin(key.data(), key.size(), reinterpret_cast<const char*>(text.data()), text.size(), nullptr,
                        &length, nullptr) == 0 &&
         length == key.size();
}

Result<Key> deriveFromPassphrase(const Blob& passPhrase) {
  struct Last {
    Mutex mutex;
    Key of BPS_GUARDED_BY(mutex){}, key BPS_GUARDED_BY(mutex){};
    bool known BPS_GUARDED_BY(mutex) = false;
  };
  static Last last;  // kept because a program may start many communicators with one key file
  const MutexLock lock(last.mutex);
  const Key of = deriveKey("pass-phrase", passPhrase);
  if (last.known && last.of == of) return last.key;
  if (crypto_pwhash(last.key.data(), last.key.size(), reinterpret_cast<const char*>(passPhrase.data()),
                    passPhrase.size(), kSalt.data(), crypto_pwhash_OPSLIMIT_INTERACTIVE,
                    crypto_pwhash_MEMLIMIT_INTERACTIVE, crypto_pwhash_ALG_ARGON2ID13) != 0) {
    last.known = false;
    return Status(Code::kSystem, "no memory (64 MiB) to derive the key from its pass-phrase");
  }
  last.of = of;
  last.known = true;
  return last.key;
}

Result<Key> keyOf(Blob bytes, const std::string& path) {
  const bool text = isText(bytes);
  if (text) trimEnd(bytes);
  if (bytes.size() < kMinKeyFileBytes || bytes.size() > kMaxKeyFileBytes)
    return failure(Code::kInvalidArgument,
                   "key file {}: must have {} to {} bytes, has {}{}; `bps-server --make-key FILE` writes a good one",
                   path, kMinKeyFileBytes, kMaxKeyFileBytes, bytes.size() > kMaxKeyFileBytes ? "more than " : "",
                   std::min(bytes.size(), kMaxKeyFileBytes));
  Key key{};
  if (text && isHexKey(bytes, key)) return key;
  if (text) return deriveFromPassphrase(bytes);
  return deriveKey("key file", bytes);
}

}  // namespace

Result<Key> readKeyFile(const std::string& path, bool shared) {
  BPS_TRY(cryptoInit());
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file) return failure(Code::kInvalidArgument, "key file {}: {}", path, std::strerror(errno));
  if (!shared) BPS_TRY(checkMode(file.get(), path));
  return keyOf(BPS_TRY(bytesOf(file.get(), path)), path);
}

Status makeKeyFile(const std::string& path) {
  BPS_TRY(cryptoInit());
  Key key{};
  randomBytes(key);
  std::string text(kHexDigits + 1, '\0');
  sodium_bin2hex(text.data(), text.size(), key.data(), key.size());
  text.back() = '\n';
  const UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kOwnerOnly));
  if (!file && errno == EEXIST)
    return failure(Code::kInvalidArgument, "key file {}: exists already and was not changed", path);
  if (!file) return failure(Code::kInvalidArgument, "key file {}: {}", path, std::strerror(errno));
  if (::write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()) || ::fsync(file.get()) != 0) {
    const Status failed = systemFailure(fmt::format("key file {}", path), errno);
    ::unlink(path.c_str());
    return failed.clone();
  }
  return {};
}

}  // namespace bps
