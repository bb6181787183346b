// A model of how servers join, leave and are lost while calls go on. tests/model/check.sh checks it with spin.
//
// The model has the hub (src/control/servers/server_changes.h, Hub::lose) and three ranks (src/comm/servers,
// src/comm/lanes/recovery.h). Its names are those of the code. Every interleaving of these processes is checked for:
//   - all ranks cut every call alike, and put its chunks on the same lanes;
//   - every rank gets the sum of every chunk exactly once, and each sum contains one contribution of every rank;
//   - no lane is dropped before it is idle;
//   - neither the hub nor a rank receives a message that it takes for a breach of the protocol;
//   - every call ends, and so does every change. Each step increases a counter, so no run is endless, and a run that
//     stops early is an invalid end state.
//
// What the model simplifies, and why no fault of the protocol hides there:
//   - A call has one chunk for each owner, so the rule by which the lanes of one call stay in step has no effect.
//   - How many chunks a rank has retired on a lane to a server matters only when the lane ends or must be idle. So the
//     model chooses the number only then: any number that the window of the lane allows.
//   - A lost server may still sum until a rank ends its lane. So the model covers a server that dies at any moment
//     before kLost, and also one that is only cut off.
//   - SubstituteLanes sum a chunk as soon as all ranks have contributed. A later sum only delays steps that may be
//     delayed anyway. The same holds for the lanes to the worker that is an owner (rank 0), so they have no state: the
//     chunk of a call is summed when all ranks have begun the call.
//   - A reply reaches the hub at once. A reply that arrives after a step of the hub has the same effect as one that is
//     sent after that step, because a rank learns of the step only from its next event.
//   - The items and results of a kRecovery are variables: a rank does nothing between its item and the result.
//     Connecting a SubstituteLane always succeeds.
//   - No rank leaves, and neither a rank nor the hub fails. ServerChanges::Step::kOpening is not visible to a rank.
//   - kNewRate changes the sizes of chunks, but neither lanes nor the servers that are present.
//
// Macros with the size of the model: see check.sh. Macros with the prefix MUTATION_ put a fault into the protocol, which
// the checks must find. With -DREACH=NAME, the model has an error where ESSENTIAL(NAME, condition) is reached with a true
// condition: the model must reach all of them.

#define RANKS 3
#define SERVERS 2
#define WINDOW 2 // also the depth of the lanes
#ifndef CALLS
#define CALLS 3
#endif
#ifndef LOSSES
#define LOSSES 2
#endif
#ifndef JOINS
#define JOINS 1 // attempts
#endif
#ifndef LEAVES
#define LEAVES 0 // attempts
#endif
#ifndef ABORTS
#define ABORTS 0 // by the hub: a deadline passes, or the connection to a joining server breaks
#endif
#ifndef FAILURES
#define FAILURES 0 // replies kFailed
#endif
#define LANES (SERVERS + JOINS) // one for each server that is present at the start, one for each attempt to join
#define NONE 7
#define ALL_RANKS 7
#define ALL_CALLS 255

// ServerEvent::Kind, ServerReply::Kind and ServerChanges::Step
mtype = {kNone, kLost, kJoining, kHandles, kConnecting, kConnected, kLeaving, kAt, kEnd, kAborted, kReady, kDone,
         kFailed};

// The states of a lane on one rank: not connected; to a server; between the item of a kRecovery and its result; a
// SubstituteLane.
#define kUnused 0
#define kRemote 1
#define kEnded 2
#define kSubstitute 3

// Situations that the model must reach
#define kHolderSendsSum 1
#define kRanksAreWindowApart 2
#define kNoServerIsLeft 3
#define kJoinedServerSums 4
#define kFirstCallIsAboveLimit 5
#define kJoinedServerIsLostBeforeDone 6
#define kJoinedServerIsLostWhenOthersAreNotDone 7
#define kLeavingServerIsLostAfterDone 8
#define kServerIsLostDuringRecovery 9
#define kNewLaneReplacesSubstitute 10
#define kReplyCrossesAborted 11
#define kConnectedRankBeginsCall 12
#define kServerIsLostWhenAnotherIsConnected 13
#define kReadyRepliesDifferInLimit 14
#define kConnectedServerIsAborted 15
#define kReadyCrossesAborted 16
#ifdef REACH
#define ESSENTIAL(situation, condition) assert(situation != REACH || !(condition))
#else
#define ESSENTIAL(situation, condition) skip
#endif

// ServerEvent: kind, server, and one more field: the change (kJoining, kLeaving), the lane that the handles belong to
// (kHandles), or the call (kAt)
chan events[RANKS] = [6] of {mtype, byte, byte};

typedef Lane {
  unsigned state : 2;
  unsigned submitted : 3; // chunks
  unsigned retired : 3;   // chunks whose sum is in the buffer of the caller; the least possible number while kRemote
};

typedef Rank {
  unsigned begun : 3;      // CallScheduler::Counts::begun
  unsigned recoveries : 2; // kRecovery operations that this rank has completed
  bool left[SERVERS];      // HubClient::left_
  byte lanes[SERVERS];     // DataPlane::lanes_; NONE if the server is no owner
  unsigned next : 3;       // DataPlane::LaneChange::next
  Lane lane[LANES];
  byte presentAt[SERVERS]; // ServerWeights: bit c is set if the server is present in call c
  byte changesAt;          // ServerWeights: bit c is set if a change begins with call c
  bool cutter[SERVERS];    // the weights that the cutter has
  // ServerChange::Change
  bool changing, joins, connects, connected, ready, done, lost;
  unsigned server : 1;
  unsigned number : 3;
  unsigned firstCall : 3;
  unsigned handles : 3;
};
Rank R[RANKS];
#define LANE(r, i) R[r].lane[i]

// What the ranks agree on after a loss, by number of the kRecovery
typedef Recovery {
  unsigned arrived : 2; // items
  unsigned lane : 3;
  unsigned firstCall : 3;
  unsigned from : 3;
  unsigned to : 3;
};
Recovery recovery[LOSSES];

// The SubstituteLanes that replace a lane
typedef Substitute {
  unsigned to : 3;     // the first chunk whose contributions are exchanged; sums are exchanged before it
  unsigned summed : 3; // chunks that are summed, and all before Recovery::from
  byte retired[RANKS]; // RecoveryItem::retired
};
Substitute substitute[LANES];

// For each call, the lane of the chunk for each server; NONE if the server gets no chunk. The first rank that begins a
// call writes this.
typedef Cut {
  byte lane[SERVERS];
};
Cut cut[CALLS];
byte cutCalls;             // calls that some rank has begun
byte open = RANKS * CALLS; // calls that ranks have not begun, and chunks of ended lanes that are not retired
bool over;                 // the hub has ended

// ServerChanges
bool present[SERVERS]; // Place::present
byte losses, joinsBegun, leavesBegun, aborts, failures;
mtype step = kNone; // Change::step
bool changeJoins;
byte changeServer, changeNumber, changeReplied, changeCall;

// ---------------------------------------------------------------------------------------------------------------- hub

inline announce(kind, s, number) {
  assert(nfull(events[0]) && nfull(events[1]) && nfull(events[2]));
  events[0]!kind, s, number;
  events[1]!kind, s, number;
  events[2]!kind, s, number
}

inline clearChange() {
  step = kNone;
  changeJoins = false;
  changeServer = 0;
  changeReplied = 0;
  changeCall = 0
}

inline abortChange() {
  announce(kAborted, changeServer, 0);
  clearChange()
}

// Hub::lose() and ServerChanges::onLost()
inline lose(s) {
  losses++;
  present[s] = false;
#if LEAVES > 0
  if
  :: step == kReady && changeServer == s -> abortChange()
  :: else
  fi;
#endif
  announce(kLost, s, 0)
}

inline beginStep(nextStep, kind, number) {
  step = nextStep;
  changeReplied = 0;
  announce(kind, changeServer, number)
}

inline takeEffect() {
  if
  :: changeJoins -> present[changeServer] = true
  :: else
  fi;
  beginStep(kDone, kAt, changeCall);
  changeCall = 0
}

inline finish() {
  if
  :: !changeJoins -> present[changeServer] = false
  :: else
  fi;
  announce(kEnd, changeServer, 0);
  clearChange()
}

inline onReply(replied, limit) {
#ifdef MUTATION_NO_CHANGE_NUMBER
  announced = step != kNone;
#else
  announced = step != kNone && R[me].number == changeNumber;
#endif
  if
  :: !announced -> // the reply has crossed with kAborted
    ESSENTIAL(kReplyCrossesAborted, true);
    ESSENTIAL(kReadyCrossesAborted, replied == kReady);
    assert(R[me].number <= changeNumber)
#if FAILURES > 0
  :: announced && replied == kFailed && step != kDone -> abortChange()
#endif
  :: announced && replied != kFailed ->
    assert(replied == (step == kConnecting -> kConnected : step) && (changeReplied & (1 << me)) == 0);
    ESSENTIAL(kReadyRepliesDifferInLimit, replied == kReady && changeJoins && changeReplied != 0 &&
                                          limit != changeCall);
    changeReplied = changeReplied | (1 << me);
    changeCall = (limit > changeCall -> limit : changeCall);
    if
    :: step == kDone && changeReplied == ALL_RANKS -> finish()
    :: else
    fi
  fi;
  announced = false
}

#ifdef MUTATION_CONNECTED_BEFORE_ALL_RANKS
#define ALL_CONNECTED (changeReplied != 0)
#else
#define ALL_CONNECTED (changeReplied == ALL_RANKS)
#endif

active proctype hub() {
  d_step {
    present[0] = true;
    present[1] = true
  }
  do
  :: atomic { losses < LOSSES && present[0] -> lose(0) }
  :: atomic { losses < LOSSES && present[1] && losses + leavesBegun > 0 -> lose(1) } // the servers are alike
#if JOINS > 0
  :: atomic { // beginJoin()
      step == kNone && joinsBegun < JOINS && (!present[0] || !present[1]) ->
      if
      :: !present[0] -> changeServer = 0
      :: !present[1] -> changeServer = 1
      fi;
      joinsBegun++;
      changeNumber++;
      changeJoins = true;
      beginStep(kHandles, kJoining, changeNumber)
    }
  :: atomic { // distributeHandles()
      step == kHandles && changeReplied == ALL_RANKS -> beginStep(kConnecting, kHandles, SERVERS + joinsBegun - 1)
    }
  :: atomic { step == kConnecting && ALL_CONNECTED -> beginStep(kReady, kConnected, 0) }
#endif
#if LEAVES > 0
  :: atomic {
      step == kNone && leavesBegun < LEAVES && (present[0] || present[1]) ->
      if
      :: present[0] -> changeServer = 0
      :: present[1] && losses + leavesBegun > 0 -> changeServer = 1
      fi;
      leavesBegun++;
      changeNumber++;
      beginStep(kReady, kLeaving, changeNumber)
    }
#endif
#if JOINS + LEAVES > 0
  :: atomic { step == kReady && changeReplied == ALL_RANKS -> takeEffect() }
#endif
#if ABORTS > 0
  :: atomic {
      (step == kHandles || step == kConnecting || step == kReady) && aborts < ABORTS ->
      aborts++;
      abortChange()
    }
#endif
  :: atomic { open == 0 && step == kNone -> over = true; break }
  od
}

// --------------------------------------------------------------------------------------------------------------- rank

// ServerWeights::add(). Of two changes for the same call and server, the last one wins.
inline addWeights(sinceCall, s, isPresent) {
  R[me].presentAt[s] = (isPresent -> R[me].presentAt[s] | ((ALL_CALLS << sinceCall) & ALL_CALLS)
                                  : R[me].presentAt[s] & (ALL_CALLS >> (8 - sinceCall)));
  R[me].changesAt = R[me].changesAt | (1 << sinceCall)
}

#define HAD_RETIRED(r, i) (substitute[i].retired[r] > substitute[i].summed)

inline finishChunk(r, i) {
  if
  :: HAD_RETIRED(r, i)
  :: else ->
    assert(LANE(r, i).retired == substitute[i].summed);
    LANE(r, i).retired++;
    open--
  fi
}

// One chunk of the SubstituteLanes, which all ranks have submitted
inline sumNext(i) {
  if
  :: substitute[i].summed < substitute[i].to -> // a rank sends the sum
    ESSENTIAL(kHolderSendsSum, true);
    assert(HAD_RETIRED(0, i) || HAD_RETIRED(1, i) || HAD_RETIRED(2, i))
  :: else -> // all ranks send their contributions, which must be intact
    assert(!HAD_RETIRED(0, i) && !HAD_RETIRED(1, i) && !HAD_RETIRED(2, i))
  fi;
  finishChunk(0, i);
  finishChunk(1, i);
  finishChunk(2, i);
  substitute[i].summed++
}

#define CONTRIBUTED(r, i) (LANE(r, i).state == kSubstitute && LANE(r, i).submitted > substitute[i].summed)
inline stepSubstitutes(i) {
  do
  :: CONTRIBUTED(0, i) && CONTRIBUTED(1, i) && CONTRIBUTED(2, i) -> sumNext(i)
  :: else -> break
  od
}

// DataPlane::submit(), for the chunk of one server
inline submit(s) {
  i = (R[me].cutter[s] -> R[me].lanes[s] : NONE);
  assert(!R[me].cutter[s] || i != NONE);
  if
  :: R[me].begun == cutCalls -> cut[R[me].begun].lane[s] = i
  :: else -> assert(cut[R[me].begun].lane[s] == i)
  fi;
  if
  :: i == NONE
  :: else ->
    LANE(me, i).submitted++;
    if
    :: LANE(me, i).state == kSubstitute ->
      open++;
      stepSubstitutes(i)
    :: else ->
      ESSENTIAL(kJoinedServerSums, i >= SERVERS);
      assert(LANE(me, i).state == kRemote)
    fi
  fi;
  i = 0
}

// ServerWeights::beforeCall() and CallScheduler::admit()
inline beginCall() {
  if
  :: R[me].changesAt & (1 << R[me].begun) ->
    R[me].cutter[0] = (R[me].presentAt[0] >> R[me].begun) & 1;
    R[me].cutter[1] = (R[me].presentAt[1] >> R[me].begun) & 1
  :: else
  fi;
  ESSENTIAL(kNoServerIsLeft, !R[me].cutter[0] && !R[me].cutter[1]);
  ESSENTIAL(kConnectedRankBeginsCall, R[me].connected && !R[me].ready);
  submit(0);
  submit(1);
  if
  :: R[me].begun == cutCalls -> cutCalls++
  :: else
  fi;
  R[me].begun++;
  open--
}

inline endChange() {
  R[me].changing = false;
  R[me].joins = false;
  R[me].connects = false;
  R[me].connected = false;
  R[me].handles = 0;
  R[me].ready = false;
  R[me].done = false;
  R[me].lost = false;
  R[me].server = 0;
  R[me].number = 0;
  R[me].firstCall = NONE;
  R[me].next = NONE
}

inline handleJoining() {
  assert(!R[me].changing && R[me].left[server]);
  R[me].changing = true;
  R[me].joins = true;
  R[me].server = server;
  R[me].number = number;
  if
  :: onReply(kHandles, 0)
#if FAILURES > 0
  :: failures < FAILURES -> failures++; onReply(kFailed, 0)
#endif
  fi
}

inline handleConnected() {
  assert(R[me].changing && R[me].server == server && R[me].connected && !R[me].ready);
  R[me].ready = true;
#ifdef MUTATION_LIMIT_WITH_CONNECTED
  onReply(kReady, 0)
#else
  onReply(kReady, R[me].begun)
#endif
}

inline handleLeaving() {
  assert(!R[me].changing && !R[me].left[server]);
  R[me].changing = true;
  R[me].server = server;
  R[me].number = number;
  R[me].ready = true;
  onReply(kReady, R[me].begun)
}

inline takeEffectAt() {
  assert(R[me].changing && R[me].server == server && R[me].ready && R[me].firstCall == NONE &&
         number >= R[me].begun);
  ESSENTIAL(kFirstCallIsAboveLimit, number > R[me].begun);
  R[me].firstCall = number;
  addWeights(number, server, R[me].joins);
  if
  :: R[me].joins -> R[me].left[server] = false
  :: else
  fi
}

inline handleEnd() {
  assert(R[me].changing && R[me].server == server && R[me].done);
  if
  :: !R[me].joins ->
    R[me].left[server] = true;
#ifndef MUTATION_LEAVE_DROPS_LANE_WHEN_DONE
    if
    :: !R[me].lost -> R[me].lanes[server] = NONE
    :: else
    fi
#endif
  :: else
  fi;
  endChange()
}

// A rank retires a chunk only after all ranks have submitted it. A rank contributes to a chunk only after it has retired
// the chunk that is WINDOW before.
#define ENDED(r, i) (LANE(r, i).state == kEnded)
#define MAY_RETIRE(n, i) (n <= LANE(0, i).submitted && n <= LANE(1, i).submitted && n <= LANE(2, i).submitted && \
  (!ENDED(0, i) || n <= LANE(0, i).retired + WINDOW) && \
  (!ENDED(1, i) || n <= LANE(1, i).retired + WINDOW) && \
  (!ENDED(2, i) || n <= LANE(2, i).retired + WINDOW))
#define MUST_RETIRE(n, i) (n + WINDOW < LANE(0, i).retired || n + WINDOW < LANE(1, i).retired || \
  n + WINDOW < LANE(2, i).retired)

#define OTHER(n) ((me + n) % RANKS)
// ServerRecovery::recover(), until the item is sent
inline endLane() {
  assert(!R[me].left[server]);
  R[me].left[server] = true;
  if
  :: R[me].changing && R[me].server == server ->
    ESSENTIAL(kJoinedServerIsLostBeforeDone, R[me].joins && !R[me].done);
    ESSENTIAL(kJoinedServerIsLostWhenOthersAreNotDone,
              R[me].joins && R[me].done && R[OTHER(1)].begun > R[me].firstCall && !R[OTHER(2)].done);
    ESSENTIAL(kLeavingServerIsLostAfterDone, !R[me].joins && R[me].done && !R[OTHER(1)].done);
    R[me].lost = true
  :: else -> ESSENTIAL(kServerIsLostWhenAnotherIsConnected, R[me].connected && !R[me].ready)
  fi;
  i = (R[me].next != NONE && R[me].server == server -> R[me].next : R[me].lanes[server]); // newestLane()
  assert(i != NONE && LANE(me, i).state == kRemote);
  do
  :: MAY_RETIRE(LANE(me, i).retired + 1, i) -> LANE(me, i).retired++
  :: !MUST_RETIRE(LANE(me, i).retired, i) -> break
  od;
  LANE(me, i).state = kEnded;
  ESSENTIAL(kServerIsLostDuringRecovery, R[OTHER(1)].recoveries < R[me].recoveries);
  substitute[i].retired[me] = LANE(me, i).retired;
  open = open + LANE(me, i).submitted - LANE(me, i).retired;
  agree();
  i = 0
}

// agreeOnRecovery()
inline agree() {
  c = R[me].recoveries;
  assert(recovery[c].arrived == 0 || recovery[c].lane == i);
  recovery[c].lane = i;
#ifdef MUTATION_FIRST_CALL_OF_THE_LAST_ITEM
  recovery[c].firstCall = R[me].begun;
#else
  recovery[c].firstCall = (R[me].begun > recovery[c].firstCall -> R[me].begun : recovery[c].firstCall);
#endif
  recovery[c].from = (recovery[c].arrived == 0 || LANE(me, i).retired < recovery[c].from -> LANE(me, i).retired
                                                                                       : recovery[c].from);
  recovery[c].to = (LANE(me, i).retired > recovery[c].to -> LANE(me, i).retired : recovery[c].to);
  recovery[c].arrived++;
  c = 0
}

#ifdef MUTATION_RECOVERY_FROM_MOST
#define FROM recovery[c].to
#else
#define FROM recovery[c].from
#endif
#ifdef MUTATION_RECOVERY_TO_LEAST
#define TO recovery[c].from
#else
#define TO recovery[c].to
#endif

// DataPlane::replaceLane()
inline replaceLane() {
  c = R[me].recoveries;
  i = recovery[c].lane;
  addWeights(recovery[c].firstCall, server, false);
  ESSENTIAL(kRanksAreWindowApart, TO - FROM == WINDOW);
  assert(TO - FROM <= WINDOW);
  assert(LANE(me, i).retired >= FROM && LANE(me, i).retired - FROM <= WINDOW); // the rank has kept these sums
  LANE(me, i).state = kSubstitute;
  if
  :: substitute[i].summed == 0 -> substitute[i].summed = FROM // nothing is summed before all ranks are here
  :: else -> assert(substitute[i].summed == FROM)
  fi;
  substitute[i].to = TO;
  c = 0;
  stepSubstitutes(i);
  R[me].recoveries++;
  i = 0
}

inline handleEvent() {
  if
  :: kind == kLost ->
    endLane();
    recovery[R[me].recoveries].arrived == RANKS;
    replaceLane()
#if JOINS > 0
  :: kind == kJoining -> handleJoining()
  :: kind == kHandles ->
    assert(R[me].changing && R[me].server == server && R[me].joins && !R[me].connects && !R[me].connected);
    R[me].connects = true;
    R[me].handles = number
  :: kind == kConnected -> handleConnected()
#endif
#if LEAVES > 0
  :: kind == kLeaving -> handleLeaving()
#endif
#if JOINS + LEAVES > 0
  :: kind == kAt -> takeEffectAt()
  :: kind == kEnd -> handleEnd()
#endif
#if ABORTS + FAILURES + LEAVES > 0
  :: kind == kAborted ->
    assert(R[me].changing && R[me].server == server && R[me].firstCall == NONE);
    ESSENTIAL(kConnectedServerIsAborted, R[me].connected && !R[me].ready);
    endChange()
#endif
  fi;
  kind = kNone;
  server = 0;
  number = 0
}

#ifdef MUTATION_BEGINS_AFTER_LIMIT
#define MAY_BEGIN true
#elif defined(MUTATION_BEGINS_BEFORE_DONE)
#define MAY_BEGIN (!R[me].ready || R[me].firstCall != NONE)
#else
#define MAY_BEGIN (!R[me].ready || (R[me].firstCall != NONE && \
  (R[me].begun < R[me].firstCall || !R[me].joins || R[me].done)))
#endif

// DataPlane::canChangeLane(). An idle lane to a server has retired all chunks.
#define OLD_LANE R[me].lanes[R[me].server]
#define SUBMITTED LANE(me, OLD_LANE).submitted
#define IS_IDLE ((LANE(me, OLD_LANE).state == kSubstitute && SUBMITTED == substitute[OLD_LANE].summed) || \
  (LANE(me, OLD_LANE).state == kRemote && MAY_RETIRE(SUBMITTED, OLD_LANE)))
#ifdef MUTATION_CHANGES_BUSY_LANE
#define CAN_CHANGE_LANE true
#else
#define CAN_CHANGE_LANE (OLD_LANE == NONE || IS_IDLE)
#endif

inline changeLane() {
  assert(OLD_LANE == NONE || IS_IDLE);
  ESSENTIAL(kNewLaneReplacesSubstitute, R[me].joins && OLD_LANE != NONE && SUBMITTED > 0);
  if
  :: OLD_LANE != NONE && LANE(me, OLD_LANE).state == kRemote -> LANE(me, OLD_LANE).retired = SUBMITTED
  :: else
  fi;
#ifdef MUTATION_LEAVE_DROPS_LANE_WHEN_DONE
  OLD_LANE = R[me].next;
#else
  OLD_LANE = (R[me].joins -> R[me].next : OLD_LANE);
#endif
  R[me].next = NONE;
  R[me].done = true;
  onReply(kDone, 0)
}

inline noteConnected() {
  R[me].next = R[me].handles;
  R[me].connects = false;
  R[me].connected = true;
  LANE(me, R[me].next).state = kRemote;
#ifdef MUTATION_LIMIT_WITH_CONNECTED
  onReply(kConnected, R[me].begun)
#else
  onReply(kConnected, 0)
#endif
}

inline startRank() {
  R[me].lanes[0] = 0;
  R[me].lanes[1] = 1;
  LANE(me, 0).state = kRemote;
  LANE(me, 1).state = kRemote;
  R[me].presentAt[0] = ALL_CALLS;
  R[me].presentAt[1] = ALL_CALLS;
  R[me].cutter[0] = true;
  R[me].cutter[1] = true;
  R[me].next = NONE;
  R[me].firstCall = NONE
}

active [RANKS] proctype rank() {
  mtype kind = kNone;
  byte server, number, i, c;
  bool announced;
  byte me = _pid - 1;
  d_step { startRank() }
  do
#ifdef MUTATION_LOSS_OVERTAKES
  :: atomic { events[me]??kLost, server, number -> kind = kLost; handleEvent() }
#endif
  :: atomic { events[me]?kind, server, number -> handleEvent() }
  :: atomic { R[me].begun < CALLS && MAY_BEGIN -> beginCall() }
#if JOINS > 0
  :: atomic { R[me].connects -> noteConnected() }
#endif
#if FAILURES > 0
  :: atomic {
      R[me].connects && failures < FAILURES ->
      failures++;
      R[me].connects = false;
      onReply(kFailed, 0)
    }
#endif
#if JOINS + LEAVES > 0
  :: atomic {
      R[me].firstCall != NONE && !R[me].done && R[me].begun >= R[me].firstCall && CAN_CHANGE_LANE -> changeLane()
    }
#endif
  :: over && empty(events[me]) -> break
  od
}
