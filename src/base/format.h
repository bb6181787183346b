// The fmt library for the rest of bps. format.cc compiles it into base, so that the libraries of bps neither export nor
// import symbols of libfmt.
#pragma once
#include <fmt/core.h>

#include <string>
#include <utility>

#include "src/base/status.h"

namespace bps {

// Makes a failed Status with a formatted message: failure(Code::kSystem, "bind {}: {}", address, why).
template <class... Args>
Status failure(Code code, fmt::format_string<Args...> text, Args&&... args) {
  return {code, fmt::format(text, std::forward<Args>(args)...)};
}

// Makes a kSystem failure with the message "<what>: <text of the errno value `error`>".
Status systemFailure(const std::string& what, int error);

}  // namespace bps
