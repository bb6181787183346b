#include "rendezvous.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <cstring>
#include <thread>
#include <vector>

namespace bps_torch {
namespace {

constexpr std::chrono::milliseconds kFirstPoll{1}, kLastPoll{100};

std::vector<uint8_t> bytesOf(const std::string& text) { return {text.begin(), text.end()}; }

std::string rankKey(int rank) { return c10::str("rank/", rank); }

}  // namespace

// Polls the store, because a thread inside wait() would keep all other threads from the store, and could not be
// aborted.
void Rendezvous::waitForKey(const std::string& key) const {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  for (std::chrono::milliseconds pause = kFirstPoll; !store.check({key}); pause = std::min(2 * pause, kLastPoll)) {
    if (const std::string why = givenUp(); !why.empty()) C10_THROW_ERROR(DistBackendError, name + ": " + why);
    if (std::chrono::steady_clock::now() > deadline) {
      std::string missing;
      for (int each = 0; each < size; ++each)
        if (!store.check({rankKey(each)})) missing += c10::str(missing.empty() ? "" : ", ", each);
      C10_THROW_ERROR(DistBackendError,
                      c10::str(name, ": cannot start within ", static_cast<double>(timeout.count()) / 1000, " s, ",
                               missing.empty() ? "rank 0 has not set its address" : "missing ranks: " + missing));
    }
    std::this_thread::sleep_for(pause);
  }
}

bpsUniqueId Rendezvous::meet() const {
  store.set(rankKey(rank), bytesOf("here"));
  if (store.add("arrived", 1) == size) store.set("all", bytesOf("here"));
  waitForKey("all");
  bpsUniqueId id{};
  if (rank == 0) {
    const bpsResult_t made = bpsGetUniqueId(&id);
    const std::string error = made == bpsSuccess ? "" : bpsGetLastError(nullptr);
    store.set("id", bytesOf(made == bpsSuccess ? "+" + std::string(id.internal, sizeof id.internal) : "-" + error));
    if (made != bpsSuccess) C10_THROW_ERROR(DistBackendError, c10::str(name, ": bpsGetUniqueId: ", error));
    return id;
  }
  waitForKey("id");
  const std::vector<uint8_t> value = store.get("id");
  const std::string text(value.begin(), value.end());
  if (text.size() != 1 + sizeof id.internal || text[0] != '+')
    C10_THROW_ERROR(DistBackendError, c10::str(name, ": rank 0 cannot start bps: ", text.substr(1)));
  std::memcpy(id.internal, text.data() + 1, sizeof id.internal);
  // The id contains the secret of the job.
  if (store.add("read", 1) == size - 1) store.deleteKey("id");
  return id;
}

}  // namespace bps_torch
