#include "tools/bps_run/remote_script.h"

#include "src/base/format.h"

namespace bps {
namespace {

// The format of printf(1) that prints these bytes.
std::string octal(const std::string& bytes) {
  std::string text;
  for (const char c : bytes) text += fmt::format("\\{:03o}", static_cast<unsigned char>(c));
  return text;
}

// The shell reads the whole function before it runs it, so that `cat` gets only what follows the script. setsid makes
// the process the leader of a group. The grace period is shorter than that of bps-run. After the
// connection has ended, the shell may write a message about the killed process; SIGPIPE must not end it then.
// The exit status of the script is that of the process.
constexpr const char* kEnd = R"(
  child=$!
  trap '' PIPE
  { cat <&3; kill -TERM -"$child"; sleep 3; kill -KILL -"$child"; } >/dev/null 2>&1 &
  watcher=$!
  exec 3<&-
  wait "$child"
  status=$?
  kill -KILL -"$child" 2>/dev/null
  kill "$watcher" 2>/dev/null
  [ -z "$dir" ] || rm -rf "$dir"
  exit "$status"
}
run
)";

}  // namespace

std::string shellQuoted(const std::string& text) {
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? "'\\''" : std::string(1, c);
  return quoted + "'";
}

std::string remoteScript(const RemoteProgram& program) {
  std::string script = "run() {\n  exec 3<&0\n  dir=\n";
  script +=
      "  command -v setsid >/dev/null || { echo 'setsid (util-linux) is missing on this machine' >&2; exit 127; }\n";
  if (!program.key.empty())
    script +=
        "  dir=$(mktemp -d \"${TMPDIR:-/tmp}/bps-run-XXXXXX\") || exit 1\n"
        "  (umask 077 && printf '" +
        octal(program.key) + "' >\"$dir/key\") || { rm -rf \"$dir\"; exit 1; }\n";
  script += "  cd " + shellQuoted(program.directory) + " 2>/dev/null\n  (\n";
  for (const auto& [name, value] : program.environment)
    script += "    export " + name + "=" + shellQuoted(value) + "\n";
  if (!program.key.empty()) script += "    export BPS_KEY_FILE=\"$dir/key\"\n";
  script += "    set --";
  for (const std::string& word : program.command) script += " " + shellQuoted(word);
  script += "\n";
  if (!program.alternative.empty()) {
    const std::string path = shellQuoted(program.alternative);
    script += "    if [ -x " + path + " ]; then shift; set -- " + path + " \"$@\"; fi\n";
  }
  script += "    exec setsid \"$@\" </dev/null 3<&-\n  ) &";
  return script + kEnd;
}

}  // namespace bps
