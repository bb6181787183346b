// ServerFile: the file of BPS_SERVERS=@FILE. The hub reads it again when it has changed.
#pragma once
#include <sys/stat.h>

#include <optional>
#include <string>
#include <vector>

#include "src/base/deadline.h"
#include "src/control/servers/server_list.h"

namespace bps {

class ServerFile {
 public:
  // `servers` is the value of BPS_SERVERS, which need not name a file. Looks at the file at this interval at most.
  explicit ServerFile(std::string servers, std::chrono::milliseconds interval = std::chrono::seconds(1));

  bool exists() const { return !path_.empty(); }
  // Returns the servers of the file at the first call, and later if it has changed since the call before. A file that
  // cannot be read or has a wrong entry changes nothing, and the hub warns once. A FIFO or a device is not read again,
  // because that could block.
  std::optional<std::vector<ServerTarget>> readIfChanged();
  Deadline nextLook() const { return exists() ? nextLook_ : Deadline::never(); }

 private:
  std::string servers_, path_;
  std::chrono::milliseconds interval_;
  timespec modified_{};
  ino_t inode_ = 0;
  off_t size_ = 0;
  Deadline nextLook_ = Deadline::in({});
};

}  // namespace bps
