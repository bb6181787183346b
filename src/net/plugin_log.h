// The log of the plugins that we load. What a plugin warns of during one of our calls is usually why the call fails: it
// becomes the text of the failure. All else goes to our log.
#pragma once
#include <string>

#include "net_plugin/abi.h"
#include "src/base/status.h"

namespace bps::net {

// The logger given to every plugin.
abi::Logger pluginLogger();

// Stands around one call into a plugin, on the thread that makes it.
class PluginCall {
 public:
  PluginCall();
  PluginCall(const PluginCall&) = delete;
  PluginCall& operator=(const PluginCall&) = delete;
  ~PluginCall();

  // What the call returned, as a Status: "NAME: WARNING" or, without a warning, "NAME: CALL failed (code)".
  Status outcome(int code, const std::string& plugin, const char* call);
  void addWarning(std::string text);

 private:
  PluginCall* outer_;
  std::string warning_;
};

}  // namespace bps::net
