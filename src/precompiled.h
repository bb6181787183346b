// What nearly every source includes, compiled once where the Makefile precompiles headers. No source includes this file
// or may rely on it: each includes what it uses.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "src/base/deadline.h"
#include "src/base/env.h"
#include "src/base/format.h"
#include "src/base/log.h"
#include "src/base/mutex.h"
#include "src/base/status.h"
