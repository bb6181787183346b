// guarded(): the only place that catches exceptions. The main function of every thread and every
// function of the C API run inside guarded().
//
// bps does not throw, but the standard library may: bad_alloc, or system_error if a thread cannot be started. The
// innermost guarded() turns such an exception into a Status. If the Status itself cannot be allocated, the process
// terminates.
#pragma once
#include <exception>
#include <new>
#include <string>
#include <system_error>
#include <type_traits>

#include "src/base/status.h"

namespace bps {

// Calls f, which returns a Status or void.
template <class F>
Status guarded(F&& f) noexcept {
  try {
    if constexpr (std::is_void_v<std::invoke_result_t<F>>) {
      f();
      return {};
    } else {
      return f();
    }
  } catch (const std::bad_alloc&) {
    return {Code::kSystem, "out of memory"};
  } catch (const std::system_error& e) {
    return {Code::kSystem, e.what()};
  } catch (const std::exception& e) {
    return {Code::kInternal, std::string("unexpected exception: ") + e.what()};
  } catch (...) {
    return {Code::kInternal, "unexpected exception of an unknown type"};
  }
}

}  // namespace bps
