// CommandLine: the command line of a tool: options that are stored in variables of the caller, --help, --version and
// usage errors. CLI11 parses it. Only command_line.cc includes CLI11, because that takes seconds to compile.
#pragma once
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/base/status.h"

namespace bps {

// The allowed values of a number, both ends included.
struct ValueRange {
  double least, most;
};

class CommandLine {
 public:
  // `about` is the first part of the --help text.
  CommandLine(std::string tool, const std::string& about);
  ~CommandLine();
  CommandLine(CommandLine&&) = delete;

  // `names` as in "-v,--verbose". The variable must live until parse() returns. It keeps its value if the option is not
  // given.
  void flag(const std::string& names, bool& value, const std::string& help);
  // A name without dashes declares a positional argument. T: string, int, size_t, double, optional<size_t>, or a vector
  // of string, int or double, whose items are separated by commas.
  template <class T>
  void option(const std::string& names, T& value, const std::string& help, std::optional<ValueRange> within = {});
  // An option whose value may be omitted and is then empty. has() tells whether the option was given.
  void optionalValue(const std::string& names, std::string& value, const std::string& help);
  // An option whose value is one of these words.
  void choice(const std::string& names, std::string& value, const std::string& help, std::vector<std::string> words);
  void require(const std::string& name);
  // After the first word that is not an option, all words are stored unparsed in `words`.
  void rest(std::vector<std::string>& words);
  // The last part of the --help text.
  void footer(const std::string& text);

  // A command word with its own options. At most one command may be given.
  CommandLine& command(const std::string& name, const std::string& help);
  bool given() const;
  // After parse(): whether the option was given.
  bool has(const std::string& name) const;
  // Fails with the first of these options that was given: "--json has no effect with ...".
  Status refuse(std::initializer_list<const char*> names, const std::string& why) const;

  // Returns the exit status after --help, --version or a usage error, and nothing otherwise.
  [[nodiscard]] std::optional<int> parse(int argc, char** argv);
  // Prints the error to standard error with the tool's name. Returns the exit status.
  [[nodiscard]] int printUsageError(const std::string& what) const;

 private:
  struct Parser;
  std::string unknownCommand(int argc, char** argv) const;
  CommandLine(std::string tool, std::unique_ptr<Parser> parser);

  std::string tool_;
  std::vector<std::string>* rest_ = nullptr;
  std::vector<std::unique_ptr<CommandLine>> commands_;
  std::unique_ptr<Parser> parser_;
};

}  // namespace bps
