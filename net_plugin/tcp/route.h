// Asks the kernel for the interface of a route.
#pragma once
#include <string>

#include "src/base/io/socket.h"

namespace bps::plugin::tcp {

// Returns whether packets with source address `from` and destination address `to` leave through
// this interface, according to the kernel's routes and rules. Returns false if the kernel gives no
// answer.
bool isRoutedThrough(const std::string& interface, const Address& from, const Address& to);

}  // namespace bps::plugin::tcp
