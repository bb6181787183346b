// Send order: the order in which machines send to owners and owners answer machines. The send order
// prevents a NIC from receiving from all machines at the same time. All functions are pure.
//
// Imagine a round of a call as a circle on which the arc of each owner is as long as its share. The
// n machines move round the circle at the same speed and at equal distances: machine m begins m/n
// of the way round. So an owner receives from one machine after another, highest machine number
// first, at the rate of its NIC. The owner answers the machines in the same order. So the machines
// also continue in the order in which they began.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace bps {

// Returns all owners in the order in which `machine` sends to them. The result includes owners with
// weight 0.
std::vector<size_t> sendOrder(const std::vector<uint64_t>& weights, const std::vector<bool>& owners, size_t machine,
                              size_t machines);

// Returns all machines in the order in which `owner` answers them. The chunks of the machines reach
// the owner in the same order.
std::vector<size_t> answerOrder(const std::vector<uint64_t>& weights, size_t owner, size_t machines);

}  // namespace bps
