// The real NCCL: found at the first call, never in a constructor, so that a preload costs nothing where NCCL is not
// used.
// BPS_REAL calls its functions.
//
// Searched in this order, and never ourselves: BPS_NCCL_LIB_PATH; a libnccl that is loaded already, also one that
// dlopen(RTLD_LOCAL) hides from dlsym(RTLD_NEXT), as Python's imports do; NCCL's functions inside the program or one of
// its libraries; libnccl.so.2 by the dynamic linker's rules; the usual directories. Functions are taken by their pncclX
// names, which nobody interposes.
//
// Threads: any. No lock is held while NCCL or the dynamic linker is called, since both may call us back.
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

// By its path; else NCCL is part of a library of the program's.
inline bool isStandaloneLibrary(std::string_view path) {
  return path.substr(path.rfind('/') + 1).starts_with("libnccl");
}

// Null when there is none.
const RealNccl* findNccl();
// The same, for who cannot do without: a warning then says where it was looked for.
const RealNccl* realNccl();

// Says once that the real library has no such function.
void logMissing(const char* name);

// What a function returns when there is no NCCL to call.
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
