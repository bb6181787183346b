// Which interface the kernel sends through.
#pragma once
#include <string>

#include "src/base/io/socket.h"

namespace bps::plugin::tcp {

// What is sent from an address of ours to another address leaves through this interface, by the routes and rules in
// force. False also where the kernel does not say.
bool isRoutedThrough(const std::string& interface, const Address& from, const Address& to);

}  // namespace bps::plugin::tcp
