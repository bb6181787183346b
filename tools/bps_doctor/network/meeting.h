// The meeting of all ranks at BPS_ROOT: the address, the key and the handshake are those of a job, so a job meets the
// same obstacles. Rank 0 talks with the other ranks one message at a time, and every message has a deadline.
#pragma once
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "src/base/deadline.h"
#include "src/control/link/handshake.h"

namespace bps::doctor {

// An authenticated connection between rank 0 and another rank. Rank 0 sends status requests, and the other rank sends
// status reports; their text is JSON. Used by one thread. After a failure the connection cannot be used any more.
class Line {
 public:
  enum class End { kRoot, kRank };  // whether this process is rank 0 or another rank

  Line(Peer peer, End end);

  Status send(const nlohmann::json& message, Deadline deadline);
  // Fails if no message arrives in time, or if it is no JSON object.
  Result<nlohmann::json> receive(Deadline deadline);
  const std::string& address() const { return socket_->peer(); }

 private:
  Status poll(bool write, Deadline deadline) const;

  std::unique_ptr<ControlSocket> socket_;
  MessageType sends_, receives_;
};

// A process that came to rank 0 and was not admitted.
struct Refused {
  std::string address;  // with the port
  std::string why;
};

struct Gathered {
  std::map<int, Line> lines;              // of the ranks that came
  std::map<int, nlohmann::json> reports;  // the first message of each
  std::vector<Refused> refused;
};

struct MeetingPlace {
  Address root;
  Key key{};
  bool auth = true;
  int ranks = 1;
};

// Of BPS_ROOT and BPS_KEY_FILE, as bpsCommInitFromEnv finds them.
Result<MeetingPlace> meetingPlace(const Env& env, int ranks);
// Rank 0: waits until all other ranks have sent their first message, or until the deadline. The number in the field
// "rank" of "facts" says which rank it is.
Result<Gathered> gather(const MeetingPlace& place, Deadline deadline);
// Other ranks: connects to rank 0, which may start later.
Result<Line> join(const MeetingPlace& place, Deadline deadline);

}  // namespace bps::doctor
