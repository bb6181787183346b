// RealNccl: the functions of the NCCL library that this process uses. BPS_REAL calls these
// functions.
//
// The first call finds the library; no constructor does. A preload of bps therefore costs nothing
// in a process that does not use NCCL. The search never finds bps itself. If BPS_NCCL_LIB_PATH is
// set, only that library is tried. Otherwise the search takes the first of these:
//  - a libnccl that is already loaded, even if dlopen(RTLD_LOCAL) hides it from dlsym(RTLD_NEXT),
//    as imports in Python do;
//  - NCCL's functions inside the program or one of its libraries;
//  - libnccl.so.2, found by the rules of the dynamic linker;
//  - libnccl.so.2 in the usual directories.
// Functions are looked up by their pncclX names, which no tool interposes.
//
// The table of functions and the library belong to the process and are never freed. Any thread may
// call these functions. The code here holds no lock while it calls NCCL or the dynamic linker,
// because these may call back.
#pragma once
#include <atomic>
#include <string>
#include <string_view>
#include <type_traits>

#include "src/nccl/functions.h"
#include "src/nccl/types.h"

namespace bps::nccl {

struct RealNccl {
// NOLINTNEXTLINE(bugprone-macro-parentheses): a declaration's parts cannot stand in parentheses
#define BPS_MEMBER(result, name, parameters, arguments) result(*name) parameters = nullptr;
  BPS_NCCL_FUNCTIONS(BPS_MEMBER, BPS_MEMBER)
#undef BPS_MEMBER
  std::string path;
};

// True if the path names a separate NCCL library. False if NCCL is linked into a library of the
// program.
inline bool isStandaloneLibrary(std::string_view path) {
  return path.substr(path.rfind('/') + 1).starts_with("libnccl");
}

// Returns null if there is no NCCL library.
const RealNccl* findNccl();
// As findNccl(), for callers that need NCCL. If there is no NCCL library, the first call logs where
// bps searched.
const RealNccl* realNccl();

void logMissing(const char* name);

// The result that a function of NCCL returns if there is no NCCL library.
template <class Result>
Result noNcclResult() {
  if constexpr (std::is_same_v<Result, ncclResult_t>) return ncclSystemError;
  else if constexpr (std::is_same_v<Result, const char*>) return "no NCCL library found (BPS_NCCL_LIB_PATH names one)";
  else return Result();
}

template <class Result, class... Parameters, class... Arguments>
Result callReal(Result (*RealNccl::*member)(Parameters...), const char* name, Arguments... arguments) {
  const RealNccl* real = realNccl();
  if (real == nullptr) return noNcclResult<Result>();
  if (real->*member == nullptr) {
    logMissing(name);
    return noNcclResult<Result>();
  }
  return (real->*member)(arguments...);
}

}  // namespace bps::nccl

// BPS_REAL(ncclSend, send, count, ...) calls NCCL's function.
#define BPS_REAL(name, ...) ::bps::nccl::callReal(&::bps::nccl::RealNccl::name, #name __VA_OPT__(, ) __VA_ARGS__)
