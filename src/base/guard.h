// guarded(): the one place where exceptions end. Used by the main function of every thread and by the C border.
//
// Nothing in bps throws, but the standard library may (bad_alloc; system_error when no thread can be started). Such an
// exception travels to the nearest guarded() and becomes a Status there. If not even the few bytes of that Status can
// be had, the process ends: there is nothing left to report with.
#pragma once
#include <exception>
#include <new>
#include <string>
#include <system_error>
#include <type_traits>

#include "src/base/status.h"

namespace bps {

// Calls f, which returns Status or nothing.
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
