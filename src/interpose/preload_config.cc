#include "src/interpose/preload_config.h"

#include <utility>

#include "src/base/guard.h"
#include "src/base/log.h"

namespace bps::interpose {
namespace {

PreloadConfig* read() {
  auto* made = new PreloadConfig;  // never freed, because calls may come during static destruction
  made->disabled = preloadDisabled();
  if (made->disabled) return made;
  made->envError = guarded([&]() -> Status {
    made->env = BPS_TRY(processEnv());
    // Programs that call NCCL already accept NCCL's order of summation.
    if (made->env.ncclLocal.empty()) made->env.ncclLocal = "any";
    return {};
  });
  if (!made->envError.ok()) logWarn(Subsystem::kEnv, "{}; all calls go to NCCL", made->envError.message());
  return made;
}

}  // namespace

const PreloadConfig& preloadConfig() {
  static const PreloadConfig* const once = read();
  return *once;
}

}  // namespace bps::interpose
