// AuthListener: accepts connections and returns only those that have proved the key. Unauthenticated peers cannot
// exhaust its resources.
//
// A connection is in stage kAwaitingHello until its Hello arrives, then in kHelloReceived until its proof arrives. Each
// of the two stages has a fixed number of places and a timeout. If a stage is full, the oldest connection of the
// address that has the most connections in it is evicted. A peer that holds the key needs its place for two round trips
// only, so it gets in while others hold or even replace thousands of connections. A step accepts a bounded number of
// connections. Silent connections cost a step nothing, since they wait in an epoll set of their own. A refused peer
// receives the reason and has a short time to read it. Refusals are logged at a bounded rate; the rest are counted.
//
// Belongs to the thread of its owner, whose loop calls watch() and step().
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

// Logs the first refusals of a period one by one. At the end of the period it logs how many more there were.
class RefusalLog {
 public:
  void add(const std::string& peer, const std::string& why);
  // Call at wakeAt().
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
      2048;  // per stage; at most a sixteenth of the process's file descriptors

  static constexpr int kBacklog = 4096;  // connections that the kernel may queue; the system may limit it further

  // `job` as in AcceptingHandshake.
  static Result<AuthListener> create(UniqueFd listener, const Credentials& credentials, Purpose purpose, uint64_t job);
  // Listens on `address`.
  static Result<AuthListener> create(const Address& address, const Credentials& credentials, Purpose purpose,
                                     uint64_t job);

  Result<Address> address() const { return localAddress(listener_.get()); }
  size_t maxPending() const { return maxPending_; }
  // Used by handshakes that begin from now on.
  void useKey(const Key& key) { credentials_.key = key; }
  void watch(PollSet& set) const;
  // Returns the peers that have passed the handshake.
  std::vector<Peer> step(const PollSet& set);
  // Takes an authenticated peer that the caller refuses, sends it the reason and closes the connection.
  void reject(std::unique_ptr<ControlSocket> socket, const Refusal& refusal);
  // Takes a peer whose last frame is queued, sends what is queued and closes the connection.
  void flushAndClose(std::unique_ptr<ControlSocket> socket);
  // Stops listening and closes unauthenticated connections. Peers in flushAndClose() still get their output.
  void close();
  // True if no authenticated peer has output left to send. Refused peers do not count.
  bool idle() const { return queues_[kFlushing].connections.empty(); }

 private:
  enum Stage : size_t { kAwaitingHello, kHelloReceived, kRefused, kFlushing, kStages };
  struct Connection {
    Stage stage;
    std::string host;  // its address without the port
    std::unique_ptr<AcceptingHandshake> handshake;
    std::unique_ptr<ControlSocket> socket;  // for the output that is left, once there is no handshake
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
  Deadline pause_ = Deadline::in({});  // no accept before; file descriptors are short
};

}  // namespace bps
