#include "tools/command_line/command_line.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <cstdio>

namespace bps {
namespace {

constexpr int kUsageError = 2;

// What the limits of an option of this type are limits of.
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
CLI::Range range(Within within) {
  return {static_cast<T>(within.least), static_cast<T>(within.most)};
}

}  // namespace

// Of the tool, or, owned by that, of one of its commands.
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
}

CommandLine::~CommandLine() = default;

void CommandLine::flag(const std::string& names, bool& value, const std::string& help) {
  parser_->app->add_flag(names, value, help);
}

template <class T>
void CommandLine::option(const std::string& names, T& value, const std::string& help, std::optional<Within> within) {
  CLI::Option* option = parser_->app->add_option(names, value, help);
  using Type = typename Number<T>::Type;
  if constexpr (requires { Number<T>::kList; }) option->delimiter(',');
  if constexpr (std::is_arithmetic_v<Type>)
    if (within) option->check(range<Type>(*within));
}

template void CommandLine::option(const std::string&, std::string&, const std::string&, std::optional<Within>);
template void CommandLine::option(const std::string&, int&, const std::string&, std::optional<Within>);
template void CommandLine::option(const std::string&, size_t&, const std::string&, std::optional<Within>);
template void CommandLine::option(const std::string&, double&, const std::string&, std::optional<Within>);
template void CommandLine::option(const std::string&, std::optional<size_t>&, const std::string&,
                                  std::optional<Within>);
template void CommandLine::option(const std::string&, std::vector<std::string>&, const std::string&,
                                  std::optional<Within>);
template void CommandLine::option(const std::string&, std::vector<int>&, const std::string&, std::optional<Within>);
template void CommandLine::option(const std::string&, std::vector<double>&, const std::string&, std::optional<Within>);

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

std::optional<int> CommandLine::parse(int argc, char** argv) {
  try {
    parser_->app->parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    fmt::print("{}", parser_->app->help("", commands_.empty() ? CLI::AppFormatMode::Normal : CLI::AppFormatMode::All));
    return 0;
  } catch (const CLI::ParseError& error) {
    return complain(error.what());
  }
  if (rest_ != nullptr) *rest_ = parser_->app->remaining();
  return {};
}

int CommandLine::complain(const std::string& what) const {
  fmt::print(stderr, "{}: {} (see {} --help)\n", tool_, what, tool_);
  return kUsageError;
}

}  // namespace bps
