// Status and Result<T>: how the internal functions of bps report failures.
//
// A Status is one pointer; null means success, so success costs one compare and no allocation. A
// Result<T> holds a value or a Status. Status and Result are [[nodiscard]]. BPS_TRY takes the value
// of a Status or Result, or returns the failure from the enclosing function. bps does not throw;
// guarded() catches what the standard library throws (src/base/guard.h).
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace bps {

// The values equal those of bpsResult_t, so the C API converts them by a cast.
enum class Code : int {
  kOk = 0,
  kUnhandledCuda = 1,
  kSystem = 2,
  kInternal = 3,
  kInvalidArgument = 4,
  kInvalidUsage = 5,
  kRemote = 6,
  kInProgress = 7,
  kTimeout = 8,
};

class [[nodiscard]] Status {
 public:
  Status() noexcept = default;
  Status(Code code, std::string message) : rep_(std::make_unique<Rep>(Rep{code, std::move(message)})) {}

  bool ok() const noexcept { return rep_ == nullptr; }
  Code code() const noexcept { return rep_ ? rep_->code : Code::kOk; }
  const char* message() const noexcept { return rep_ ? rep_->message.c_str() : ""; }
  // Returns a copy. Status is move-only, so that copies, which allocate, are explicit.
  Status clone() const { return rep_ ? Status(rep_->code, rep_->message) : Status(); }
  // Prefixes the message with "<context>: ".
  Status within(const std::string& context) && {
    if (rep_) rep_->message = context + ": " + rep_->message;
    return std::move(*this);
  }
  Status status() && noexcept { return std::move(*this); }
  void value() && noexcept {}  // lets BPS_TRY treat Status and Result alike

 private:
  struct Rep {
    Code code;
    std::string message;
  };
  std::unique_ptr<Rep> rep_;
};

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}          // NOLINT(google-explicit-constructor): reads as return x;
  Result(Status status) : status_(std::move(status)) {}  // NOLINT(google-explicit-constructor): reads as return e;

  bool ok() const noexcept { return value_.has_value(); }
  Status status() && noexcept { return std::move(status_); }
  const Status& error() const& noexcept { return status_; }
  T value() && { return std::move(*value_); }

 private:
  Status status_;
  std::optional<T> value_;
};

// The result of one non-blocking step that did not fail.
enum class Progress { kDone, kPending };

}  // namespace bps

// Unwraps a Result or Status, or returns its failure from the enclosing function.
#define BPS_TRY(expr)                                      \
  __extension__({                                          \
    auto bpsTry_ = (expr);                                 \
    if (!bpsTry_.ok()) return std::move(bpsTry_).status(); \
    std::move(bpsTry_).value();                            \
  })
