#include "src/control/relay/relay_connector.h"

#include <cerrno>
#include <utility>

#include "src/base/format.h"
#include "src/base/io/socket.h"

namespace bps {

Result<RelayConnector> RelayConnector::start(const Address& relay, const RelayRequest& request) {
  return RelayConnector(relay, request, BPS_TRY(startConnect(relay)));
}

void RelayConnector::watch(PollSet& set) const {
  if (sent_) set.add(fd_.get());
  else set.addWriter(fd_.get());
}

Status RelayConnector::send() {
  BPS_TRY(connectResult(fd_.get(), relay_));
  const auto bytes = encodeRelay(request_);
  const ssize_t count = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  if (count < 0) return systemFailure("relay " + relay_.text(), errno);
  if (static_cast<size_t>(count) != bytes.size())
    return failure(Code::kSystem, "relay {}: cannot send the request at once", relay_.text());
  sent_ = true;
  return {};
}

Result<Progress> RelayConnector::step(const PollSet& set) {
  if (!set.ready(fd_.get())) return Progress::kPending;
  if (!sent_) {
    BPS_TRY(send());
    return Progress::kPending;
  }
  while (received_ < bytes_.size()) {
    const ssize_t count = ::recv(fd_.get(), bytes_.data() + received_, bytes_.size() - received_, 0);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) return Progress::kPending;
    if (count < 0) return systemFailure("relay " + relay_.text(), errno);
    if (count == 0) return failure(Code::kRemote, "relay {}: closed the connection without a reply", relay_.text());
    received_ += static_cast<size_t>(count);
  }
  Result<RelayReply> reply = decodeRelayReply(bytes_);
  if (!reply.ok()) return std::move(reply).status().within("relay " + relay_.text());
  reply_ = std::move(reply).value();
  return Progress::kDone;
}

std::string RelayConnector::refusalText() const {
  switch (reply_.outcome) {
    case RelayReply::Outcome::kConnected:
      return {};
    case RelayReply::Outcome::kNotYet:
      return fmt::format("relay {} has not reached {} yet", relay_.text(), request_.target.text());
    case RelayReply::Outcome::kUnknown:
      return fmt::format("the process that relays at {} has no communicator with {}; it may belong to another job",
                         relay_.text(), request_.target.text());
    case RelayReply::Outcome::kFull:
      return fmt::format("relay {} has too many connections", relay_.text());
    case RelayReply::Outcome::kBroken:
      return fmt::format("relay {} cannot reach {} any more", relay_.text(), request_.target.text());
  }
  return {};
}

}  // namespace bps
