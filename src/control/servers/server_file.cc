#include "src/control/servers/server_file.h"

#include "src/base/log.h"

namespace bps {

ServerFile::ServerFile(std::string servers, std::chrono::milliseconds interval)
    : servers_(std::move(servers)), interval_(interval) {
  if (servers_.starts_with('@')) path_ = servers_.substr(1);
}

std::optional<std::vector<ServerTarget>> ServerFile::readIfChanged() {
  if (!exists() || !nextLook_.passed()) return {};
  nextLook_ = Deadline::in(interval_);
  struct stat now {};
  if (::stat(path_.c_str(), &now) != 0) return {};  // an editor may replace the file at this moment
  if (!S_ISREG(now.st_mode)) return {};
  const bool same = now.st_mtim.tv_sec == modified_.tv_sec && now.st_mtim.tv_nsec == modified_.tv_nsec &&
                    now.st_ino == inode_ && now.st_size == size_;
  if (same) return {};
  modified_ = now.st_mtim;
  inode_ = now.st_ino;
  size_ = now.st_size;
  Result<std::vector<ServerTarget>> targets = serverTargets(servers_);
  if (targets.ok()) return std::move(targets).value();
  logWarn(Subsystem::kInit, "the list of servers stays as it is: {}", targets.error().message());
  return {};
}

}  // namespace bps
