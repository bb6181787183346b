#include "src/control/link/handshake.h"

#include "src/base/format.h"
#include "src/control/link/printable.h"

namespace bps {
namespace {

constexpr const char* kWrongKey = "authentication failed: the key differs (BPS_KEY_FILE, or the unique id)";

std::string wrongVersion(unsigned theirs) {
  return fmt::format("protocol version {}, this side speaks {}; rebuild one side", theirs, kControlVersion);
}

std::string wrongMode(bool mine) {
  return fmt::format("authentication is {} here and {} on the other side (BPS_AUTH)", mine ? "on" : "off",
                     mine ? "off" : "on");
}

}  // namespace

AcceptingHandshake::AcceptingHandshake(std::unique_ptr<ControlSocket> socket, const Credentials& credentials,
                                       Purpose purpose, uint64_t job)
    : peer_{std::move(socket), 0}, credentials_(credentials), purpose_(purpose), job_(job) {}

Result<Progress> AcceptingHandshake::step() {
  while (true) {
    Progress progress = Progress::kDone;
    switch (state_) {
      case State::kAwaitingHello:
        progress = BPS_TRY(awaitHello());
        break;
      case State::kAwaitingProof:
        progress = BPS_TRY(awaitProof());
        break;
      case State::kSendingWelcome:
        progress = BPS_TRY(socket().flush());
        if (progress == Progress::kDone) state_ = State::kReady;
        break;
      case State::kReady:
        return Progress::kDone;
    }
    if (progress == Progress::kPending) return Progress::kPending;
  }
}

Result<Progress> AcceptingHandshake::awaitHello() {
  std::optional<Frame> frame = BPS_TRY(socket().read());
  if (!frame) return Progress::kPending;
  BPS_TRY(checkHello(*frame));
  mine_.emplace();
  Challenge challenge{credentials_.timeoutMs, {}, mine_->publicKey()};
  randomBytes(challenge.nonce);
  socket().setJob(job_ != 0 ? job_ : frame->header.job);
  socket().queue(challenge);
  BPS_TRY(socket().flush());
  state_ = State::kAwaitingProof;
  return Progress::kDone;
}

Status AcceptingHandshake::checkHello(const Frame& frame) {
  WireReader in(frame.payload);
  if (frame.header.type != MessageType::kHello || in.get<uint32_t>() != Hello::kMagic)
    return refuse("wrong magic: not a peer of this protocol");
  const auto version = in.get<uint16_t>();
  if (frame.header.version != kControlVersion) return refuse(wrongVersion(frame.header.version));
  if (version != kControlVersion) return refuse(wrongVersion(version));
  Result<Hello> decoded = decode<Hello>(frame.payload);
  if (!decoded.ok()) return refuse(decoded.error().message());
  const Hello hello = std::move(decoded).value();
  if (hello.auth != credentials_.auth) return refuse(wrongMode(credentials_.auth));
  if (hello.purpose != purpose_)
    return refuse(fmt::format("the connection is for \"{}\", this address serves \"{}\"", purposeName(hello.purpose),
                              purposeName(purpose_)));
  peer_.timeoutMs = hello.timeoutMs;
  theirs_ = hello.publicKey;
  return {};
}

Result<Progress> AcceptingHandshake::awaitProof() {
  const Transcript::Hash before = socket().transcript().hash();
  std::optional<Frame> frame = BPS_TRY(socket().read());
  if (!frame) return Progress::kPending;
  if (frame->header.type == MessageType::kRefusal) {
    const Refusal refusal = BPS_TRY(decode<Refusal>(frame->payload));
    return failure(Code::kRemote, "the peer refused: {}", printable(refusal.text));
  }
  if (frame->header.type != MessageType::kProof) return refuse("handshake out of order");
  const ProofMessage message = BPS_TRY(decode<ProofMessage>(frame->payload));
  if (!sameProof(message.proof, makeProof(credentials_.effectiveKey(), HandshakeSide::kConnecting, before))) {
    wrongKey_ = true;
    return refuse(kWrongKey);
  }
  BPS_TRY(welcome());
  state_ = State::kSendingWelcome;
  return Progress::kDone;
}

Status AcceptingHandshake::welcome() {
  const Key key = credentials_.effectiveKey();
  const Transcript::Hash transcript = socket().transcript().hash();
  Result<SessionKeys> keys = sessionKeys(key, *mine_, theirs_, transcript);
  if (!keys.ok()) return refuse(keys.error().message());
  socket().queue(Welcome{makeProof(key, HandshakeSide::kAccepting, transcript)});
  socket().seal(std::move(keys).value(), HandshakeSide::kAccepting);
  return {};
}

Status AcceptingHandshake::refuse(const std::string& text) {
  socket().queue(Refusal{Refusal::Kind::kMismatch, Code::kRemote, text});
  return {Code::kRemote, text};
}

ConnectingHandshake::ConnectingHandshake(std::unique_ptr<ControlSocket> socket, const Credentials& credentials,
                                         Purpose purpose, uint64_t job)
    : peer_{std::move(socket), 0}, credentials_(credentials), purpose_(purpose), job_(job) {
  Hello hello;
  hello.purpose = purpose_;
  hello.auth = credentials_.auth;
  hello.timeoutMs = credentials_.timeoutMs;
  randomBytes(hello.nonce);
  hello.publicKey = mine_.publicKey();
  hello.dialled = this->socket().peer();
  this->socket().setJob(job_);
  this->socket().queue(hello);
  this->socket().setJob(0);  // the accepting side's frames carry no job id before the Challenge
}

Result<Progress> ConnectingHandshake::step() {
  while (true) {
    BPS_TRY(socket().flush());
    Progress progress = Progress::kDone;
    switch (state_) {
      case State::kAwaitingChallenge:
        progress = BPS_TRY(awaitChallenge());
        break;
      case State::kAwaitingWelcome:
        progress = BPS_TRY(awaitWelcome());
        break;
      case State::kReady:
        return Progress::kDone;
    }
    if (progress == Progress::kPending) return Progress::kPending;
  }
}

Result<std::optional<Frame>> ConnectingHandshake::next(MessageType expected) {
  Result<std::optional<Frame>> came = socket().read();
  final_ = !came.ok() && !socket().broken();
  std::optional<Frame> frame = BPS_TRY(std::move(came));
  if (!frame) return frame;
  if (frame->header.type == MessageType::kRefusal) {
    refusal_ = BPS_TRY(decode<Refusal>(frame->payload));
    final_ = true;
    return Status(refusal_->code, refusal_->text);
  }
  if (frame->header.type != expected) return refuse("handshake out of order: not a peer of this protocol");
  return frame;
}

Result<Progress> ConnectingHandshake::awaitChallenge() {
  std::optional<Frame> frame = BPS_TRY(next(MessageType::kChallenge));
  if (!frame) return Progress::kPending;
  const Challenge challenge = BPS_TRY(decode<Challenge>(frame->payload));
  if (job_ != 0 && frame->header.job != job_) return refuse("the peer answered for another job");
  theirs_ = challenge.publicKey;
  peer_.timeoutMs = challenge.timeoutMs;
  socket().setJob(frame->header.job);
  const Proof proof = makeProof(credentials_.effectiveKey(), HandshakeSide::kConnecting, socket().transcript().hash());
  socket().queue(ProofMessage{proof});
  state_ = State::kAwaitingWelcome;
  return Progress::kDone;
}

Result<Progress> ConnectingHandshake::awaitWelcome() {
  const Transcript::Hash transcript = socket().transcript().hash();
  std::optional<Frame> frame = BPS_TRY(next(MessageType::kWelcome));
  if (!frame) return Progress::kPending;
  const Welcome welcome = BPS_TRY(decode<Welcome>(frame->payload));
  const Key key = credentials_.effectiveKey();
  if (!sameProof(welcome.proof, makeProof(key, HandshakeSide::kAccepting, transcript))) return refuse(kWrongKey);
  Result<SessionKeys> keys = sessionKeys(key, mine_, theirs_, transcript);
  if (!keys.ok()) return refuse(keys.error().message());
  socket().seal(std::move(keys).value(), HandshakeSide::kConnecting);
  state_ = State::kReady;
  return Progress::kDone;
}

Status ConnectingHandshake::refuse(const std::string& text) {
  final_ = true;
  socket().queue(Refusal{Refusal::Kind::kMismatch, Code::kRemote, text});
  [[maybe_unused]] const bool sent = socket().flush().ok();
  return {Code::kRemote, text};
}

}  // namespace bps
