#include "src/interpose/settings.h"

#include <utility>

#include "src/base/guard.h"
#include "src/base/log.h"

namespace bps::interpose {
namespace {

Settings* read() {
  auto* made = new Settings;  // never freed: calls may come while the process's static objects are destroyed
  made->disabled = preloadDisabled();
  if (made->disabled) return made;
  made->wrong = guarded([&]() -> Status {
    made->env = BPS_TRY(processEnv());
    return {};
  });
  if (!made->wrong.ok()) logWarn(Subsystem::kEnv, "{}; all calls go to NCCL", made->wrong.message());
  return made;
}

}  // namespace

const Settings& settings() {
  static const Settings* const once = read();
  return *once;
}

}  // namespace bps::interpose
