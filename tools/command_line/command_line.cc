#include "tools/command_line/command_line.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <cstdio>

#include "bps/bps.h"

namespace bps {
namespace {

constexpr int kUsageError = 2;

// The type of the limits of an option whose variable has the type T.
template <class T>
struct Number {
  using Type = T;
};
template <class T>
struct Number<std::optional<T>> {
  using Type = T;
};
template <class T>
struct Number<std::vector<T>> {
  using Type = T;
  static constexpr bool kList = true;
};

template <class T>
CLI::Range range(ValueRange within) {
  return {static_cast<T>(within.least), static_cast<T>(within.most)};
}

}  // namespace

// The parser of a tool, or of one command of a tool. `own` is null for a command, because the
// parser of the tool frees the parsers of its commands.
struct CommandLine::Parser {
  std::unique_ptr<CLI::App> own;
  CLI::App* app;
};

CommandLine::CommandLine(std::string tool, std::unique_ptr<Parser> parser)
    : tool_(std::move(tool)), parser_(std::move(parser)) {}

CommandLine::CommandLine(std::string tool, const std::string& about)
    : CommandLine(std::move(tool), std::make_unique<Parser>(Parser{std::make_unique<CLI::App>(about), nullptr})) {
  parser_->app = parser_->own.get();
  parser_->app->name(tool_);
  parser_->app->set_version_flag("--version", fmt::format("{} {}.{}.{}", tool_, BPS_MAJOR, BPS_MINOR, BPS_PATCH));
}

CommandLine::~CommandLine() = default;

void CommandLine::flag(const std::string& names, bool& value, const std::string& help) {
  parser_->app->add_flag(names, value, help);
}

template <class T>
void CommandLine::option(const std::string& names, T& value, const std::string& help,
                         std::optional<ValueRange> within) {
  CLI::Option* option = parser_->app->add_option(names, value, help);
  using Type = typename Number<T>::Type;
  if constexpr (requires { Number<T>::kList; }) option->delimiter(',');
  if constexpr (std::is_arithmetic_v<Type>)
    if (within) option->check(range<Type>(*within));
}

template void CommandLine::option(const std::string&, std::string&, const std::string&, std::optional<ValueRange>);
template void CommandLine::option(const std::string&, int&, const std::string&, std::optional<ValueRange>);
template void CommandLine::option(const std::string&, size_t&, const std::string&, std::optional<ValueRange>);
template void CommandLine::option(const std::string&, double&, const std::string&, std::optional<ValueRange>);
template void CommandLine::option(const std::string&, std::optional<size_t>&, const std::string&,
                                  std::optional<ValueRange>);
template void CommandLine::option(const std::string&, std::vector<std::string>&, const std::string&,
                                  std::optional<ValueRange>);
template void CommandLine::option(const std::string&, std::vector<int>&, const std::string&, std::optional<ValueRange>);
template void CommandLine::option(const std::string&, std::vector<double>&, const std::string&,
                                  std::optional<ValueRange>);

void CommandLine::optionalValue(const std::string& names, std::string& value, const std::string& help) {
  parser_->app->add_option(names, value, help)->expected(0, 1);
}

void CommandLine::choice(const std::string& names, std::string& value, const std::string& help,
                         std::vector<std::string> words) {
  parser_->app->add_option(names, value, help)->check(CLI::IsMember(std::move(words)));
}

void CommandLine::require(const std::string& name) { parser_->app->get_option(name)->required(); }

void CommandLine::rest(std::vector<std::string>& words) {
  parser_->app->prefix_command();
  rest_ = &words;
}

void CommandLine::footer(const std::string& text) { parser_->app->footer(text); }

CommandLine& CommandLine::command(const std::string& name, const std::string& help) {
  parser_->app->require_subcommand(0, 1);
  auto parser = std::make_unique<Parser>(Parser{nullptr, parser_->app->add_subcommand(name, help)});
  commands_.push_back(std::unique_ptr<CommandLine>(new CommandLine(tool_, std::move(parser))));
  return *commands_.back();
}

bool CommandLine::given() const { return parser_->app->parsed(); }

bool CommandLine::has(const std::string& name) const { return parser_->app->get_option(name)->count() > 0; }

Status CommandLine::refuse(std::initializer_list<const char*> names, const std::string& why) const {
  for (const char* name : names)
    if (has(name)) return {Code::kInvalidUsage, fmt::format("{} {}", name, why)};
  return {};
}

// Returns the error text if the first word is not a known command.
std::string CommandLine::unknownCommand(int argc, char** argv) const {
  if (commands_.empty() || argc < 2 || argv[1][0] == '-') return {};
  std::string names;
  for (const auto& command : commands_) {
    if (command->parser_->app->get_name() == argv[1]) return {};
    names += (names.empty() ? "" : ", ") + command->parser_->app->get_name();
  }
  return fmt::format("{}: expected one of these commands first: {}", argv[1], names);
}

std::optional<int> CommandLine::parse(int argc, char** argv) {
  if (const std::string unknown = unknownCommand(argc, argv); !unknown.empty()) return printUsageError(unknown);
  try {
    parser_->app->parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    fmt::print("{}", parser_->app->help("", commands_.empty() ? CLI::AppFormatMode::Normal : CLI::AppFormatMode::All));
    return 0;
  } catch (const CLI::CallForVersion& version) {
    fmt::print("{}\n", version.what());
    return 0;
  } catch (const CLI::ParseError& error) {
    return printUsageError(error.what());
  }
  if (rest_ != nullptr) *rest_ = parser_->app->remaining();
  return {};
}

int CommandLine::printUsageError(const std::string& what) const {
  const std::string line = fmt::format("{}: {} (see {} --help)\n", tool_, what, tool_);
  std::fputs(line.c_str(), stderr);  // does not throw, even if standard error is closed
  return kUsageError;
}

}  // namespace bps
