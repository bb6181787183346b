# find_package(bps) defines the target bps::bps.
get_filename_component(_bps_prefix "${CMAKE_CURRENT_LIST_DIR}/../../@UP@" ABSOLUTE)
if(NOT TARGET bps::bps)
  add_library(bps::bps SHARED IMPORTED)
  set_target_properties(bps::bps PROPERTIES
    IMPORTED_LOCATION "${_bps_prefix}/@LIBDIR@/@SONAME@"
    IMPORTED_SONAME "@SONAME@"
    INTERFACE_INCLUDE_DIRECTORIES "${_bps_prefix}/include")
endif()
unset(_bps_prefix)
