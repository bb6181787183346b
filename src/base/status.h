// Status and Result<T>: how every internal function of bps reports failure.
//
// A Status is one pointer: null means success, so the good path is one compare and no allocation. Result<T> is a
// value or a Status. Both are [[nodiscard]]; BPS_TRY unwraps either or returns the failure from the function it
// stands in. Nothing in bps throws; what the standard library throws (bad_alloc) travels to guarded() (guard.h).
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace bps {

// One code per value of bpsResult_t, so that the C interface casts and needs no table.
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
  // The same failure; Status is move-only so that copies, which allocate, are visible.
  Status clone() const { return rep_ ? Status(rep_->code, rep_->message) : Status(); }
  // The same failure with what was being done in front of its text.
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

// Outcome of one non-blocking step that did not fail.
enum class Progress { kDone, kPending };

}  // namespace bps

// Unwraps a Result or Status, or returns its failure from the enclosing function.
#define BPS_TRY(expr)                                      \
  __extension__({                                          \
    auto bpsTry_ = (expr);                                 \
    if (!bpsTry_.ok()) return std::move(bpsTry_).status(); \
    std::move(bpsTry_).value();                            \
  })
