// AuthListener: a listener that lets nobody in who has not proved the key, and keeps strangers from costing anything.
//
// A connection is silent until its Hello has come, then helloReceived until its proof has. Each of the two stages has a
// fixed number of places and a deadline. If all places of a stage are taken, the oldest connection of the address that
// has the most of them there gives way: a peer that holds the key needs a place for two round trips only, so it passes
// while others hold or even replace thousands of connections. A turn accepts a bounded number of connections, and costs
// nothing for those that say nothing: they stand in an epoll set of their own. Refused peers are told why and then
// given a moment to read it. Refusals are logged at a bounded rate, the rest as a sum.
//
// Belongs to one thread; the owner's loop calls watch() and step().
#pragma once
#include <array>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "src/base/deadline.h"
#include "src/base/io/socket.h"
#include "src/control/link/handshake.h"
#include "src/control/link/poll_set.h"

namespace bps {

// Logs the first refusals of a period each, and how many more there were when it ends.
class RefusalLog {
 public:
  void add(const std::string& peer, const std::string& why);
  // To be called at wakeAt().
  void step();
  Deadline wakeAt() const { return more_ > 0 ? periodEnd_ : Deadline::never(); }

 private:
  size_t logged_ = 0, more_ = 0;
  std::string last_;
  Deadline periodEnd_ = Deadline::in({});
};

class AuthListener {
 public:
  static constexpr size_t kMaxPendingPerStage =
      2048;  // of each stage; at most a sixteenth of the process's descriptors

  static constexpr int kBacklog = 4096;  // connections that the kernel keeps for the listener, as far as it allows

  // `job` as AcceptingHandshake.
  static Result<AuthListener> create(UniqueFd listener, const Credentials& credentials, Purpose purpose, uint64_t job);
  // Listens on `address`.
  static Result<AuthListener> create(const Address& address, const Credentials& credentials, Purpose purpose,
                                     uint64_t job);

  Result<Address> address() const { return localAddress(listener_.get()); }
  size_t maxPending() const { return maxPending_; }
  // Of handshakes that begin from now on.
  void useKey(const Key& key) { credentials_.key = key; }
  void watch(PollSet& set) const;
  // Everybody who has come in.
  std::vector<Peer> step(const PollSet& set);
  // Takes an authenticated peer that the owner does not want, tells it why and closes.
  void reject(std::unique_ptr<ControlSocket> socket, const Refusal& refusal);
  // Takes a peer that has got its last frame, sends what is queued and closes.
  void flushAndClose(std::unique_ptr<ControlSocket> socket);
  // Stops listening and forgets the strangers; dismissed peers still get their words.
  void close();
  // No peer that has proved the key waits for its last words. Refused strangers may.
  bool idle() const { return queues_[kFlushing].connections.empty(); }

 private:
  enum Stage : size_t { kAwaitingHello, kHelloReceived, kRefused, kFlushing, kStages };
  struct Connection {
    Stage stage;
    std::string host;  // its address without the port
    std::unique_ptr<AcceptingHandshake> handshake;
    std::unique_ptr<ControlSocket> socket;  // for its last words, once there is no handshake
    Deadline deadline = Deadline::never();
    bool sent = false;
    std::list<Connection>::iterator self{};
  };
  struct StageQueue {
    std::list<Connection> connections;  // in the order of their deadlines
    std::map<std::string, size_t> perHost;
  };

  AuthListener(UniqueFd listener, UniqueFd epoll, const Credentials& credentials, Purpose purpose);
  void stepReady(std::vector<Peer>& admitted);
  void stepHandshake(Connection& connection, std::vector<Peer>& admitted);
  void accept(std::vector<Peer>& admitted);
  void refuse(Connection& connection, const Status& why);
  void sendAndDrain(Connection& connection);
  void closeExpired();
  void evictSurplus();
  void evictOldest(StageQueue& queue);
  Connection& add(Connection connection);
  void remove(Connection& connection);
  void move(Connection& connection, Stage stage);
  void updateEpoll(Connection& connection, bool added);
  std::chrono::milliseconds stageTimeout(Stage stage) const;

  UniqueFd listener_, epoll_;
  Credentials credentials_;
  Purpose purpose_;
  uint64_t job_ = 0;
  size_t maxPending_;
  std::array<StageQueue, kStages> queues_;
  RefusalLog log_;
  Deadline pause_ = Deadline::in({});  // no accept before: descriptors are short
};

}  // namespace bps
