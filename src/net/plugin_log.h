// The log output of loaded plugins. A warning during a call usually says why the call fails, so it becomes the message
// of the failed Status. All other output goes to the log of bps.
#pragma once
#include <string>

#include "net_plugin/abi.h"
#include "src/base/status.h"

namespace bps::net {

// The log function that every plugin gets.
abi::Logger pluginLogger();

// The scope of one call into a plugin, on the calling thread: it collects the warnings of this call.
class PluginCall {
 public:
  PluginCall();
  PluginCall(const PluginCall&) = delete;
  PluginCall& operator=(const PluginCall&) = delete;
  ~PluginCall();

  // Converts the result of the call to a Status: "net plugin NAME: WARNING" or, if there was no warning, "net plugin
  // NAME: CALL failed (code)".
  Status outcome(int code, const std::string& plugin, const char* call);
  void addWarning(std::string text);

 private:
  PluginCall* outer_;
  std::string warning_;
};

}  // namespace bps::net
