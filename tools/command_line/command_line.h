// The command line of a tool: options that are written to variables of the caller's, --help, --version, and what is
// said of mistakes. CLI11 reads it; only command_line.cc includes that, since every source that does takes seconds to
// compile.
#pragma once
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/base/status.h"

namespace bps {

// The values that a number may have, both ends among them.
struct ValueRange {
  double least, most;
};

class CommandLine {
 public:
  // `about` is what --help says first.
  CommandLine(std::string tool, const std::string& about);
  ~CommandLine();
  CommandLine(CommandLine&&) = delete;

  // `names` as "-v,--verbose". What is declared must live until parse() returns, and keeps its value when not given.
  void flag(const std::string& names, bool& value, const std::string& help);
  // A name without dashes is that of a positional. T: string, int, size_t, double, optional<size_t>, or a vector of
  // string, int or double, whose items stand between commas.
  template <class T>
  void option(const std::string& names, T& value, const std::string& help, std::optional<ValueRange> within = {});
  // An option that may stand without its value, which then is empty; has() says whether it is there.
  void optionalValue(const std::string& names, std::string& value, const std::string& help);
  // One of these words.
  void choice(const std::string& names, std::string& value, const std::string& help, std::vector<std::string> words);
  void require(const std::string& name);
  // From the first word that is no option on, all is left as it is, and in `words` after parse().
  void rest(std::vector<std::string>& words);
  // What --help says last.
  void footer(const std::string& text);

  // A word that has options of its own: at most one of them may be given.
  CommandLine& command(const std::string& name, const std::string& help);
  bool given() const;
  // Whether the option stood on the command line; after parse().
  bool has(const std::string& name) const;
  // Fails with the first of these options that stands on the command line: "--json has no effect with ...".
  Status refuse(std::initializer_list<const char*> names, const std::string& why) const;

  // The status to exit with, once --help, --version or a mistake has been told; nothing: go on.
  [[nodiscard]] std::optional<int> parse(int argc, char** argv);
  // Tells what is wrong on standard error, with the name of the tool; returns the status to exit with.
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
