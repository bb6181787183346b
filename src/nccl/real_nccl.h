// RealNccl: the functions of the NCCL library that this process uses; BPS_REAL calls them.
//
// The library is found at the first call, never in a constructor, so a preload costs nothing where NCCL is not used.
// The search never yields bps itself. It takes the first of: BPS_NCCL_LIB_PATH; a libnccl that is loaded already, also
// one that dlopen(RTLD_LOCAL) hides from dlsym(RTLD_NEXT), as Python's imports do; NCCL's functions inside the program
// or one of its libraries; libnccl.so.2 by the dynamic linker's rules; the usual directories. Functions are taken by
// their pncclX names, which no tool interposes.
//
// The table is the process's, as is the library, and is never freed. Threads: any. The code here holds no lock while it
// calls NCCL or the dynamic linker, since both may call back.
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

// False: NCCL is linked into a library of the program.
inline bool isStandaloneLibrary(std::string_view path) {
  return path.substr(path.rfind('/') + 1).starts_with("libnccl");
}

// Null: there is none.
const RealNccl* findNccl();
// As findNccl(), for callers that need NCCL: if there is none, the first call logs where it was searched.
const RealNccl* realNccl();

void logMissing(const char* name);

// The result of a function of NCCL if there is no NCCL.
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
