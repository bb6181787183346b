// Doorman: a listener that lets nobody in who has not proved the key, and keeps strangers from costing anything.
//
// A connection is silent until its Hello has come, then greeted until its proof has. Each of the two stages has a fixed
// number of places and a deadline. If all places of a stage are taken, the oldest connection of the address that has
// the most of them there gives way: a peer that holds the key needs a place for two round trips only, so it passes
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
#include "src/base/socket.h"
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

class Doorman {
 public:
  static constexpr size_t kMostPlaces = 2048;  // of each stage; at most a sixteenth of the process's descriptors

  static constexpr int kBacklog = 4096;  // connections that the kernel keeps for the listener, as far as it allows

  // `job` as AcceptingHandshake.
  static Result<Doorman> create(UniqueFd listener, const Credentials& credentials, Purpose purpose, uint64_t job);
  // Listens on `address`.
  static Result<Doorman> create(const Address& address, const Credentials& credentials, Purpose purpose, uint64_t job);

  Result<Address> address() const { return localAddress(listener_.get()); }
  size_t places() const { return places_; }
  // Of handshakes that begin from now on.
  void useKey(const Key& key) { credentials_.key = key; }
  void watch(PollSet& set) const;
  // Everybody who has come in.
  std::vector<Peer> step(const PollSet& set);
  // Takes an authenticated peer that the owner does not want, tells it why and closes.
  void dismiss(std::unique_ptr<ControlSocket> socket, const Refusal& refusal);
  // Takes a peer that has got its last frame, sends what is queued and closes.
  void seeOff(std::unique_ptr<ControlSocket> socket);
  // Stops listening and forgets the strangers; dismissed peers still get their words.
  void close();
  // No peer that has proved the key waits for its last words. Refused strangers may.
  bool idle() const { return rooms_[kLeaving].guests.empty(); }

 private:
  enum Stage : size_t { kSilent, kGreeted, kRefused, kLeaving, kStages };
  struct Guest {
    Stage stage;
    std::string host;  // its address without the port
    std::unique_ptr<AcceptingHandshake> handshake;
    std::unique_ptr<ControlSocket> socket;  // for its last words, once there is no handshake
    Deadline deadline = Deadline::never();
    bool said = false;
    std::list<Guest>::iterator self{};
  };
  struct Room {
    std::list<Guest> guests;  // in the order of their deadlines
    std::map<std::string, size_t> perHost;
  };

  Doorman(UniqueFd listener, UniqueFd epoll, const Credentials& credentials, Purpose purpose);
  void answerAll(std::vector<Peer>& welcome);
  void answer(Guest& guest, std::vector<Peer>& welcome);
  void accept(std::vector<Peer>& welcome);
  void refuse(Guest& guest, const Status& why);
  void sayFarewell(Guest& guest);
  void endOverdue();
  void trim();
  void giveWay(Room& room);
  Guest& enter(Guest guest);
  void remove(Guest& guest);
  void move(Guest& guest, Stage stage);
  void awaitEvents(Guest& guest, bool added);
  std::chrono::milliseconds patience(Stage stage) const;

  UniqueFd listener_, epoll_;
  Credentials credentials_;
  Purpose purpose_;
  uint64_t job_ = 0;
  size_t places_;
  std::array<Room, kStages> rooms_;
  RefusalLog log_;
  Deadline pause_ = Deadline::in({});  // no accept before: descriptors are short
};

}  // namespace bps
