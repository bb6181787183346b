// CommandLine: the command line of a tool. A CommandLine stores options in variables of the caller,
// and it handles --help, --version and usage errors. The library CLI11 does the parsing. Only
// command_line.cc includes CLI11, because compiling CLI11 takes seconds.
#pragma once
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/base/status.h"

namespace bps {

// The allowed values of a number. Both limits are allowed values too.
struct ValueRange {
  double least, most;
};

class CommandLine {
 public:
  // `about` is the first section of the --help text.
  CommandLine(std::string tool, const std::string& about);
  ~CommandLine();
  CommandLine(CommandLine&&) = delete;

  // Declares an option without a value. `names` has the form "-v,--verbose". The variable must live
  // until parse() returns. The variable keeps its value if the option is not given.
  void flag(const std::string& names, bool& value, const std::string& help);
  // Declares an option with a value. A name without dashes declares a positional argument. T is
  // string, int, size_t, double, optional<size_t>, or a vector of string, int or double. Commas
  // separate the items of a vector.
  template <class T>
  void option(const std::string& names, T& value, const std::string& help, std::optional<ValueRange> within = {});
  // Declares an option whose value may be omitted, which gives an empty value. has() tells whether
  // the option was given.
  void optionalValue(const std::string& names, std::string& value, const std::string& help);
  // Declares an option whose value must be one of `words`.
  void choice(const std::string& names, std::string& value, const std::string& help, std::vector<std::string> words);
  void require(const std::string& name);
  // Stores all words from the first positional word on in `words`, without parsing them.
  void rest(std::vector<std::string>& words);
  // Sets the last section of the --help text.
  void footer(const std::string& text);

  // Declares a command word, which has its own options. The user may give at most one command.
  CommandLine& command(const std::string& name, const std::string& help);
  bool given() const;
  // After parse(): returns whether the option was given.
  bool has(const std::string& name) const;
  // Fails if one of the options `names` was given. The failure names the first option that was
  // given: "--json has no effect with ...".
  Status refuse(std::initializer_list<const char*> names, const std::string& why) const;

  // Parses the command line. Returns the exit status after --help, --version or a usage error.
  // Otherwise returns nothing.
  [[nodiscard]] std::optional<int> parse(int argc, char** argv);
  // Prints the error with the name of the tool to standard error. Returns the exit status.
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
