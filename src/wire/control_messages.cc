#include "src/wire/control_messages.h"

#include <algorithm>
#include <cmath>

#include "src/base/format.h"
#include "src/wire/server_messages.h"

namespace bps {
namespace {

constexpr size_t kTextBytes = 4096;  // size limit of a text; the Writer truncates longer texts, the Reader rejects them

std::string_view shortened(const std::string& text) { return std::string_view(text).substr(0, kTextBytes); }

// Writer and Reader have the same methods. One function per message, each(), can therefore list the fields for encoding
// and for decoding. The Reader also checks the values.
class Writer {
 public:
  template <class T>
  requires(std::is_integral_v<T> || std::is_enum_v<T>) void field(const T& value) { out_.put(value); }
  void field(const double& value) { out_.put(value); }
  void field(const std::string& value) { out_.put(shortened(value)); }
  void field(const Blob& value) { out_.put(value); }
  void field(const std::array<uint8_t, 32>& value) { out_.putRaw(value); }
  void field(const std::vector<Blob>& value) {
    out_.put(static_cast<uint32_t>(value.size()));
    for (const Blob& blob : value) out_.put(blob);
  }
  void field(const Address& value) {
    const bool none = value.length() == 0;
    out_.put(static_cast<uint8_t>(none ? 0 : value.family() == AF_INET6 ? 6 : 4));
    if (!none) out_.put(value.port()).put(value.scope()).put(value.ip());
  }
  template <class T>
  void choice(const T& value, T, T) {
    out_.put(value);
  }
  template <class T>
  void refuse(const T&, T) {}
  void fields(const auto&... values) { (field(values), ...); }
  Blob take() && { return std::move(out_).take(); }

 private:
  WireWriter out_;
};

class Reader {
 public:
  explicit Reader(std::span<const uint8_t> bytes) : in_(bytes) {}

  template <class T>
  requires(std::is_integral_v<T> && !std::is_same_v<T, bool>) void field(T& value) { value = in_.get<T>(); }
  void field(bool& value) {
    const auto byte = in_.get<uint8_t>();
    check(byte <= 1);
    value = byte == 1;
  }
  void field(double& value) {
    value = in_.getDouble();
    check(std::isfinite(value) && value >= 0);
  }
  void field(std::string& value) {
    value = in_.getString();
    check(value.size() <= kTextBytes);
  }
  void field(Blob& value) { value = in_.getBlob(); }
  void field(std::array<uint8_t, 32>& value) { value = in_.getArray<32>(); }
  void field(std::vector<Blob>& value) {
    value.resize(in_.getCount(sizeof(uint32_t)));
    for (Blob& blob : value) blob = in_.getBlob();
  }
  void field(Address& value) {
    const auto form = in_.get<uint8_t>();
    check(form == 0 || form == 4 || form == 6);
    value = Address();
    if (form == 0) return;
    const auto port = in_.get<uint16_t>();
    const auto scope = in_.get<uint32_t>();
    const auto raw = in_.getBytes();
    check(form == 6 || scope == 0);
    if (raw.size() != (form == 6 ? 16U : 4U)) return check(false);
    value = Address::of(raw, port, scope);
  }
  template <class T>
  void choice(T& value, T least, T most) {
    value = in_.get<T>();
    check(value >= least && value <= most);
  }
  template <class T>
  void refuse(const T& value, T bad) {
    check(value != bad);
  }
  void fields(auto&... values) { (field(values), ...); }
  Status finish(const char* what) const {
    BPS_TRY(in_.finish(what));
    if (!good_) return failure(Code::kRemote, "{}: a field is out of range", what);
    return {};
  }

 private:
  void check(bool good) { good_ = good_ && good; }
  WireReader in_;
  bool good_ = true;
};

void code(auto& side, auto& value) {
  side.choice(value, Code::kUnhandledCuda, Code::kTimeout);
  side.refuse(value, Code::kInProgress);  // not a failure
}
void each(auto& side, auto& m, const Hello*) {
  side.fields(m.magic, m.version);
  side.choice(m.purpose, Purpose::kJoin, Purpose::kProbe);
  side.fields(m.auth, m.timeoutMs, m.nonce, m.publicKey, m.dialled);
}
void each(auto& side, auto& m, const Challenge*) { side.fields(m.timeoutMs, m.nonce, m.publicKey); }
void each(auto& side, auto& m, const ProofMessage*) { side.fields(m.proof); }
void each(auto& side, auto& m, const Welcome*) { side.fields(m.proof); }
void each(auto& side, auto& m, const Refusal*) {
  side.choice(m.kind, Refusal::Kind::kMismatch, Refusal::Kind::kInvalid);
  code(side, m.code);
  side.fields(m.text);
}
void each(auto& side, auto& m, const RendezvousRequest*) {
  side.fields(m.rank, m.nRanks, m.remainingMs, m.isHub, m.hub);
}
void each(auto& side, auto& m, const RendezvousReply*) { side.fields(m.hub); }
void each(auto& side, auto& m, const Join*) {
  side.fields(m.rank, m.nRanks, m.remainingMs, m.pid, m.libraryVersion, m.hostId, m.hostName, m.bytesPerSecond,
              m.standby, m.group, m.fabric, m.via);
}
void each(auto& side, auto& m, const Offer*) { side.fields(m.libraryVersion, m.bytesPerSecond); }
void each(auto& side, auto& m, const OpenJob*) { side.fields(m.proposal, m.endpoint, m.roster); }
void each(auto& side, auto& m, const JobOpened*) { side.fields(m.proposal); }
void each(auto& side, auto& m, const ControlOpInput*) {
  side.choice(m.kind, ControlOp::kGather, ControlOp::kRecovery);
  side.fields(m.number, m.remainingMs, m.blobs);
}
void each(auto& side, auto& m, const ControlOpResult*) {
  side.choice(m.kind, ControlOp::kGather, ControlOp::kRecovery);
  side.fields(m.number, m.blobs, m.givenUp);
}
void each(auto& side, auto& m, const FailureMessage*) {
  code(side, m.code);
  side.fields(m.text);
}
void each(auto& side, auto& m, const Suspect*) { side.fields(m.member, m.text); }
void each(auto& side, auto& m, const Left*) { side.fields(m.member); }
void each(auto& side, auto& m, const ServerEvent*) {
  side.choice(m.kind, ServerEvent::Kind::kLost, ServerEvent::Kind::kRankLost);
  side.fields(m.server, m.change, m.call, m.bytesPerSecond, m.rateFactor, m.handles, m.text);
}
void each(auto& side, auto& m, const ServerReply*) {
  side.choice(m.kind, ServerReply::Kind::kHandles, ServerReply::Kind::kFailed);
  side.fields(m.change, m.limit, m.handles, m.text);
}
void each(auto& side, auto& m, const CheckReport*) {
  side.fields(m.jobs, m.maxJobs, m.bytesSummed, m.freeDescriptors, m.freeBytes);
}
void each(auto& side, auto& m, const ProbeDevice*) { side.fields(m.count, m.name, m.address); }
void each(auto& side, auto& m, const ProbeOpen*) { side.fields(m.device, m.bursts, m.burstMs, m.handle); }
void each(auto& side, auto& m, const ProbeOpened*) { side.fields(m.handle); }
void each(auto& side, auto& m, const Heartbeat*) { side.fields(m.callsStarted, m.call, m.waitsFor); }
void each(auto& side, auto& m, const ClockRequest*) { side.fields(m.sentAt); }
void each(auto& side, auto& m, const ClockReply*) { side.fields(m.sentAt, m.at); }
void each(auto& side, auto& m, const ProbeRate*) { side.fields(m.bytesPerSecond); }

constexpr const char* kNames[] = {"?",
                                  "hello",
                                  "challenge",
                                  "proof",
                                  "welcome",
                                  "refusal",
                                  "rendezvous request",
                                  "rendezvous reply",
                                  "join",
                                  "roster",
                                  "offer",
                                  "open job",
                                  "job opened",
                                  "begin",
                                  "control op input",
                                  "control op result",
                                  "heartbeat",
                                  "failure",
                                  "suspect",
                                  "left",
                                  "goodbye",
                                  "probe device",
                                  "probe open",
                                  "probe opened",
                                  "probe rate",
                                  "check",
                                  "check report",
                                  "server event",
                                  "server reply",
                                  "drain",
                                  "status",
                                  "status report",
                                  "clock request",
                                  "clock reply"};

}  // namespace

const char* purposeName(Purpose purpose) {
  switch (purpose) {
    case Purpose::kJoin:
      return "join";
    case Purpose::kRendezvous:
      return "rendezvous";
    case Purpose::kServer:
      return "server";
    case Purpose::kProbe:
      return "probe";
  }
  return "?";
}

const char* controlOpName(ControlOp kind) {
  switch (kind) {
    case ControlOp::kGather:
      return "gather";
    case ControlOp::kExchange:
      return "exchange of handles";
    case ControlOp::kBarrier:
      return "barrier";
    case ControlOp::kSplit:
      return "split";
    case ControlOp::kRecovery:
      return "recovery";
  }
  return "?";
}

std::string messageName(MessageType type) {
  const auto number = static_cast<size_t>(type);
  return number > 0 && number < std::size(kNames) ? kNames[number] : fmt::format("message {}", number);
}

template <ControlMessage T>
Blob encode(const T& message) {
  Writer out;
  each(out, message, static_cast<const T*>(nullptr));
  return std::move(out).take();
}

template <ControlMessage T>
Result<T> decode(std::span<const uint8_t> bytes) {
  Reader in(bytes);
  T message;
  each(in, message, static_cast<const T*>(nullptr));
  BPS_TRY(in.finish(kNames[static_cast<size_t>(T::kType)]));
  return message;
}

#define BPS_INSTANTIATE(Message)        \
  template Blob encode(const Message&); \
  template Result<Message> decode(std::span<const uint8_t>);
BPS_INSTANTIATE(Hello)
BPS_INSTANTIATE(Challenge)
BPS_INSTANTIATE(ProofMessage)
BPS_INSTANTIATE(Welcome)
BPS_INSTANTIATE(Refusal)
BPS_INSTANTIATE(RendezvousRequest)
BPS_INSTANTIATE(RendezvousReply)
BPS_INSTANTIATE(Join)
BPS_INSTANTIATE(Offer)
BPS_INSTANTIATE(OpenJob)
BPS_INSTANTIATE(JobOpened)
BPS_INSTANTIATE(ControlOpInput)
BPS_INSTANTIATE(ControlOpResult)
BPS_INSTANTIATE(FailureMessage)
BPS_INSTANTIATE(Suspect)
BPS_INSTANTIATE(Left)
BPS_INSTANTIATE(ServerEvent)
BPS_INSTANTIATE(ServerReply)
BPS_INSTANTIATE(CheckReport)
BPS_INSTANTIATE(ProbeDevice)
BPS_INSTANTIATE(ProbeOpen)
BPS_INSTANTIATE(ProbeOpened)
BPS_INSTANTIATE(ProbeRate)
BPS_INSTANTIATE(Heartbeat)
BPS_INSTANTIATE(ClockRequest)
BPS_INSTANTIATE(ClockReply)
#undef BPS_INSTANTIATE

}  // namespace bps
