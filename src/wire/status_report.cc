#include "src/wire/status_report.h"

#include <cmath>

#include "src/base/format.h"

namespace bps {
namespace {

constexpr size_t kTextBytes = 200;
// The least bytes of an encoded call, lane and job.
constexpr size_t kCallBytes = 24, kLaneBytes = 24, kJobBytes = 60;

class Writer {
 public:
  template <class T>
  requires(std::is_integral_v<T>) void field(const T& value) { out_.put(value); }
  void field(const double& value) { out_.put(value); }
  void field(const std::string& value) { out_.put(std::string_view(value).substr(0, kTextBytes)); }
  template <class T>
  void list(const std::vector<T>& values, size_t, size_t most) {
    const size_t count = std::min(values.size(), most);
    out_.put(static_cast<uint32_t>(count));
    for (size_t i = 0; i < count; ++i) each(*this, values[i]);
  }
  void fields(const auto&... values) { (field(values), ...); }
  Blob take() && { return std::move(out_).take(); }

 private:
  WireWriter out_;
};

class Reader {
 public:
  explicit Reader(std::span<const uint8_t> bytes) : in_(bytes) {}

  template <class T>
  requires(std::is_integral_v<T>) void field(T& value) { value = in_.get<T>(); }
  void field(double& value) {
    value = in_.getDouble();
    check(std::isfinite(value) && value >= 0);
  }
  void field(std::string& value) {
    const auto text = in_.getBytes();
    check(text.size() <= kTextBytes);
    if (text.size() <= kTextBytes) value.assign(text.begin(), text.end());
  }
  template <class T>
  void list(std::vector<T>& values, size_t leastBytes, size_t most) {
    const size_t count = in_.getCount(leastBytes);
    check(count <= most);
    if (count > most) return;
    values.resize(count);
    for (T& value : values) each(*this, value);
  }
  void fields(auto&... values) { (field(values), ...); }
  Status finish() const {
    BPS_TRY(in_.finish("status report"));
    if (!good_) return {Code::kRemote, "status report: a field is out of range"};
    return {};
  }

 private:
  void check(bool good) { good_ = good_ && good; }
  WireReader in_;
  bool good_ = true;
};

// Each function lists the fields of one struct for Writer and Reader.
void fieldsOf(auto& side, auto& call, const CallReport*) { side.fields(call.text, call.number, call.bytes, call.rail); }
void fieldsOf(auto& side, auto& lane, const LaneReport*) {
  side.fields(lane.peer, lane.rail, lane.missing, lane.unsent);
}
void fieldsOf(auto& side, auto& job, const JobReport*) {
  side.fields(job.id, job.state, job.hub, job.machines, job.ranks, job.ageSeconds, job.idleSeconds, job.bytesSummed);
  side.list(job.calls, kCallBytes, JobReport::kMaxCalls);
  side.list(job.lanes, kLaneBytes, JobReport::kMaxLanes);
  side.field(job.lanesLeftOut);
}
template <class T>
void each(auto& side, T& value) {
  fieldsOf(side, value, static_cast<const std::remove_const_t<T>*>(nullptr));
}

}  // namespace

template <>
Blob encode(const StatusReport& report) {
  Writer out;
  out.field(report.silentThreads);
  out.list(report.jobs, kJobBytes, StatusReport::kMaxJobs);
  return std::move(out).take();
}

template <>
Result<StatusReport> decode(std::span<const uint8_t> bytes) {
  Reader in(bytes);
  StatusReport report;
  in.field(report.silentThreads);
  in.list(report.jobs, kJobBytes, StatusReport::kMaxJobs);
  BPS_TRY(in.finish());
  return report;
}

}  // namespace bps
