// The shell script that runs one process of bps-run on another machine.
//
// bps-run starts `ssh HOST /bin/sh -s` and writes the script to its standard input, which stays open until the run
// ends. So neither the key nor the environment is ever part of a command line, and the login shell does not matter. The
// end of the standard input tells the script that bps-run or the connection has ended: it then ends its process group.
#pragma once
#include <map>
#include <string>
#include <vector>

namespace bps {

struct RemoteProgram {
  std::vector<std::string> command;
  std::string alternative;  // run in place of command[0] if this file is executable; may be empty
  std::map<std::string, std::string> environment;
  std::string key;        // bytes of the key file that the script makes and removes; empty for none
  std::string directory;  // working directory; the script stays in the home directory if it does not exist
};

std::string remoteScript(const RemoteProgram& program);
// Quotes text for a POSIX shell.
std::string shellQuoted(const std::string& text);

}  // namespace bps
