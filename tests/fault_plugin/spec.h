// Spec: which faults to inject and how often, as FAULT_PLUGIN_SPEC says.
//
//   item[:key=value[,key=value...]][;item...]          "delay:p=0.1,us=500;busy:p=0.2;disconnect:bytes=1M"
//
//   delay:p,us             With chance p, a completion is withheld for up to `us` microseconds. Completions of one
//                          connection stay in order, so the later completions of its connection wait too.
//   busy:p                 With chance p, isend or irecv returns a null request.
//   slow:p,polls           With chance p, a connect or accept takes `polls` more polls.
//   refuse:first           The first `first` connection attempts of the process are refused.
//   disconnect:bytes,requests,oneside
//                          The connection on which the process reaches this number of bytes or requests breaks
//                          permanently. With oneside=1, the peer of the connection does not see that.
//   error:p                With chance p, a test fails, and its connection stays failed. The peer of the connection
//                          does not see the failure.
//   fail:init,listen,connect,accept,regmr,isend,irecv,test
//                          With key=n, the n-th call of the named function in the process fails.
//   corrupt:at,most        The at-th received message of at most `most` bytes arrives with one flipped bit.
//   short:at,least,most    The at-th received message of `least` to `most` bytes is reported with fewer bytes.
//   lose:at                The at-th received message of the process never arrives. No later message of its
//                          connection arrives either. No function fails, as if the network dropped packets.
//   nowait                 Callers cannot sleep until a connection is ready, so they must poll.
//   deaf                   A caller does not see that its peer closes, as with connectionless transports. Requests
//                          in flight wait forever. The item `deaf` implies `nowait`.
//   gpu:claims,takes,reaches
//                          Not a fault. With claims=1, the devices have the name nic0 and accept memory of the fake
//                          CUDA driver; received bytes become visible only after a flush. With takes=0, the
//                          registration of GPU memory fails. With reaches=0, every flush fails.
//   only:rank              Faults are injected only in the process with this BPS_RANK. The rank -1 selects the
//                          processes without BPS_RANK, which are servers.
#pragma once
#include <array>
#include <cstddef>
#include <string_view>

#include "src/base/status.h"

namespace bps::fault {

enum class Call : size_t { kInit, kListen, kConnect, kAccept, kRegMr, kIsend, kIrecv, kTest };
inline constexpr size_t kCalls = 8;
inline constexpr std::array<std::string_view, kCalls> kCallNames{"init",  "listen", "connect", "accept",
                                                                 "regmr", "isend",  "irecv",   "test"};
inline constexpr double kAnyRank = -2;

// The numbers and probabilities of the spec. If a fault's number or probability is 0, the fault
// never happens.
struct Spec {
  double delayChance = 0, delayMicroseconds = 500;
  double busyChance = 0;
  double slowChance = 0, slowPolls = 50;
  double refuseFirst = 0;
  double disconnectBytes = 0, disconnectRequests = 0, disconnectOneSide = 0;
  double errorChance = 0;
  double failInit = 0, failListen = 0, failConnect = 0, failAccept = 0;
  double failRegMr = 0, failIsend = 0, failIrecv = 0, failTest = 0;
  double corruptAt = 0, corruptMost = 64;
  double shortAt = 0, shortLeast = 1, shortMost = 1e15;
  double loseAt = 0;
  double noWait = 0, hangupHidden = 0;
  double gpuClaims = 0, gpuTakes = 0, gpuReaches = 1;
  double onlyRank = kAnyRank;

  double failAt(Call call) const;
};

// Parses the text of FAULT_PLUGIN_SPEC. An error names the item, its value and the accepted values.
Result<Spec> parseSpec(std::string_view text);

}  // namespace bps::fault
