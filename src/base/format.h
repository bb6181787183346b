// fmt, compiled once into base (format.cc) so that no object of ours exports or imports a symbol of libfmt.
#pragma once
#include <fmt/core.h>

#include <string>
#include <utility>

#include "src/base/status.h"

namespace bps {

// A failure whose message is made by fmt::format: failure(Code::kSystem, "bind {}: {}", address, why).
template <class... Args>
Status failure(Code code, fmt::format_string<Args...> text, Args&&... args) {
  return {code, fmt::format(text, std::forward<Args>(args)...)};
}

// "what: text of errno", as kSystem.
Status systemFailure(const std::string& what, int error);

}  // namespace bps
