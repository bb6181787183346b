#include "tools/bps_run/member.h"

#include <unistd.h>

#include <cstring>

#include "src/base/format.h"

namespace bps {

Result<std::unique_ptr<Member>> Member::start(MemberSpec spec) {
  Child child = BPS_TRY(Child::start(spec.process));
  return std::unique_ptr<Member>(new Member(std::move(spec), std::move(child)));
}

Member::Member(MemberSpec spec, Child child)
    : name_(std::move(spec.name)), prefix_("[" + name_ + "] "), child_(std::move(child)), group_(child_.pid()) {
  if (!spec.process.pipes) return;
  readers_.emplace_back(child_.takeOutput(), [this, show = spec.show, heed = std::move(spec.heed)](auto line) {
    if (show) printLine(STDOUT_FILENO, prefix_, line);
    else if (!heed) tail_.add(line);
    if (heed) heed(line);
  });
  readers_.emplace_back(child_.takeError(), [this, show = spec.show](auto line) {
    if (show) printLine(STDERR_FILENO, prefix_, line);
    else tail_.add(line);
  });
}

std::vector<int> Member::descriptors() const {
  std::vector<int> open;
  for (const LineReader& reader : readers_)
    if (reader.fd() >= 0) open.push_back(reader.fd());
  return open;
}

void Member::pump() {
  for (LineReader& reader : readers_) reader.pump();
}

bool Member::noticeEnd() {
  if (ended_) return false;
  ended_ = child_.reap();
  if (!ended_) return false;
  pump();
  return true;
}

std::string Member::ending() const {
  const auto [status, bySignal] = ended_.value_or(Ending{});
  if (!bySignal) return fmt::format("{} exited with status {}", name_, status);
  return fmt::format("{} was killed by signal {} ({})", name_, status - 128, ::strsignal(status - 128));
}

}  // namespace bps
