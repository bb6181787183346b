// AuthListener: accepts connections and returns only the peers that have proved that they hold the key. Unauthenticated
// peers cannot exhaust the resources of the AuthListener.
//
// A connection is in stage kAwaitingHello until its Hello arrives, then in stage kHelloReceived until its proof
// arrives. Each of these two stages has a timeout and a maximum number of connections. If a stage is full, the
// AuthListener takes the address with the most connections in this stage and closes the oldest of them. A peer that
// holds the key stays in the two stages for only two round trips. A peer with the key is therefore admitted even if an
// attacker holds or keeps opening thousands of connections. One step accepts a bounded number of connections. Silent
// connections cost a step no time, because they wait in a separate epoll set. A refused peer receives the reason and
// has a short time to read it. The AuthListener logs a limited number of refusals per period and counts the remaining
// refusals.
//
// Only one thread uses an AuthListener. The event loop of this thread calls watch() and step().
#pragma once
#include <array>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "src/base/deadline.h"
#include "src/base/io/socket.h"
#include "src/control/link/admission_counters.h"
#include "src/control/link/handshake.h"
#include "src/control/link/poll_set.h"

namespace bps {

// Logs the first refusals of a period one by one. At the end of the period the RefusalLog logs the number of further
// refusals.
class RefusalLog {
 public:
  void add(const std::string& peer, const std::string& why);
  // Call step() at the time that wakeAt() returns.
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
      2048;  // connections per stage; fewer if the process may open fewer than 32768 file descriptors

  static constexpr int kBacklog = 4096;  // connections that the kernel may queue; the system's own limit may be lower

  // `job` has the same meaning as in AcceptingHandshake.
  static Result<AuthListener> create(UniqueFd listener, const Credentials& credentials, Purpose purpose, uint64_t job);
  // Listens on `address`.
  static Result<AuthListener> create(const Address& address, const Credentials& credentials, Purpose purpose,
                                     uint64_t job);

  Result<Address> address() const { return localAddress(listener_.get()); }
  size_t maxPending() const { return maxPending_; }
  // Sets the key for handshakes that begin from now on.
  void useKey(const Key& key) { credentials_.key = key; }
  void watch(PollSet& set) const;
  // The counters may outlive the AuthListener.
  std::shared_ptr<const AdmissionCounters> counters() const { return counters_; }
  // Returns the peers that have passed the handshake.
  std::vector<Peer> step(const PollSet& set);
  // Takes the connection of an authenticated peer that the caller refuses. Sends the reason to the peer, then closes
  // the connection.
  void reject(std::unique_ptr<ControlSocket> socket, const Refusal& refusal);
  // Takes a connection whose last frame is queued. Sends the queued output, then closes the connection.
  void flushAndClose(std::unique_ptr<ControlSocket> socket);
  // Stops listening and closes unauthenticated connections. Connections that were passed to flushAndClose() still send
  // their output.
  void close();
  // True if no connection of an authenticated peer has output left to send.
  bool idle() const { return queues_[kFlushing].connections.empty(); }

 private:
  enum Stage : size_t { kAwaitingHello, kHelloReceived, kRefused, kFlushing, kStages };
  struct Connection {
    Stage stage;
    std::string host;  // the peer's address without the port
    std::unique_ptr<AcceptingHandshake> handshake;
    std::unique_ptr<ControlSocket> socket;  // sends the remaining output after the handshake has ended
    Deadline deadline = Deadline::never();
    bool sent = false;
    std::list<Connection>::iterator self{};
  };
  struct StageQueue {
    std::list<Connection> connections;  // ordered by their deadlines
    std::map<std::string, size_t> perHost;
  };

  AuthListener(UniqueFd listener, UniqueFd epoll, const Credentials& credentials, Purpose purpose);
  void stepReady(std::vector<Peer>& admitted);
  void stepHandshake(Connection& connection, std::vector<Peer>& admitted);
  void accept(std::vector<Peer>& admitted);
  void refuse(Connection& connection, const Status& why, AdmissionCounters::Refusal reason);
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
  std::shared_ptr<AdmissionCounters> counters_ = std::make_shared<AdmissionCounters>();
  Deadline pause_ = Deadline::in({});  // no connection is accepted before this time
};

}  // namespace bps
