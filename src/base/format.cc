#include "src/base/format.h"

#include <fmt/format-inl.h>

#include <cstring>

// The template instantiations that the compiled libfmt would provide.
FMT_BEGIN_NAMESPACE
template FMT_API auto detail::thousands_sep_impl<char>(locale_ref) -> thousands_sep_result<char>;
template FMT_API char detail::decimal_point_impl(locale_ref);
template FMT_API void detail::buffer<char>::append(const char*, const char*);
template FMT_API auto detail::dragonbox::to_decimal(float x) noexcept -> dragonbox::decimal_fp<float>;
template FMT_API auto detail::dragonbox::to_decimal(double x) noexcept -> dragonbox::decimal_fp<double>;
#if FMT_VERSION < 90000
template int detail::format_float(double, int, detail::float_specs, detail::buffer<char>&);
template int detail::format_float(long double, int, detail::float_specs, detail::buffer<char>&);
template int detail::snprintf_float(double, int, detail::float_specs, detail::buffer<char>&);
template int detail::snprintf_float(long double, int, detail::float_specs, detail::buffer<char>&);
#endif
FMT_END_NAMESPACE

namespace bps {

Status systemFailure(const std::string& what, int error) {
  char text[128];
  return failure(Code::kSystem, "{}: {}", what, strerror_r(error, text, sizeof text));
}

}  // namespace bps
