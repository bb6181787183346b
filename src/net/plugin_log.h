// Handles the log output of loaded plugins. A warning that a plugin logs during a call usually says why the call fails.
// The warning therefore becomes the message of the failed Status. All other output of plugins goes to the log of bps.
#pragma once
#include <string>

#include "net_plugin/abi.h"
#include "src/base/status.h"

namespace bps::net {

// Returns the log function that bps gives to every plugin.
abi::Logger pluginLogger();

// PluginCall: the scope of one call into a plugin. A PluginCall collects the warnings that the plugin logs during this
// call on the calling thread.
class PluginCall {
 public:
  PluginCall();
  PluginCall(const PluginCall&) = delete;
  PluginCall& operator=(const PluginCall&) = delete;
  ~PluginCall();

  // Converts the result of the call to a Status. The message of a failure is "net plugin NAME: WARNING". If the plugin
  // logged no warning, the message is "net plugin NAME: CALL failed (code)".
  Status outcome(int code, const std::string& plugin, const char* call);
  void addWarning(std::string text);

 private:
  PluginCall* outer_;
  std::string warning_;
};

}  // namespace bps::net
