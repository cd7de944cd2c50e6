// SPDX-License-Identifier: Apache-2.0
#include "tools/io/displayed.hpp"
#include "tools/io/partial_file.hpp"
#include "tools/sluice/command.hpp"
#include "tools/sluice/exit_code.hpp"

#include <sluice/runtime/error.hpp>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <fcntl.h>
#include <poll.h>
#include <span>
#include <string>
#include <string_view>
#include <unistd.h>
#include <utility>
#include <vector>

namespace {

using namespace sluice;

/// Opens each standard descriptor that is closed on /dev/null. Otherwise an output file could get
/// its number and receive the program's messages. Input and output are opened the wrong way round,
/// so that their use fails as that of a closed descriptor does.
void open_standard_descriptors() {
  constexpr int modes[] = {O_WRONLY, O_RDONLY, O_WRONLY};
  for (int descriptor = 0; descriptor <= STDERR_FILENO; ++descriptor) {
    // The lower descriptors are open, so the new one gets this number.
    if (::fcntl(descriptor, F_GETFD) < 0) (void)::open("/dev/null", modes[descriptor]);
  }
}

// Before the constructors of libraries: that of gRPC opens a descriptor and keeps it.
[[gnu::section(".preinit_array"),
  gnu::used]] void (*const first_function)() = open_standard_descriptors;

/// The name of the command; empty if the command line has none.
std::string command_of(const CLI::App& program) {
  const auto commands = program.get_subcommands();
  return commands.empty() ? std::string() : commands.front()->get_name();
}

int fail(const CLI::App& program, int status, std::string_view text) {
  const std::string line = cli::error_line(command_of(program), text);
  std::fwrite(line.data(), 1, line.size(), stderr);
  return status;
}

/// The first argument that the parser did not use; empty if there is none.
std::string unexpected_argument(const CLI::App& program) {
  const auto arguments = program.remaining(true);
  return arguments.empty() ? std::string() : arguments.front();
}

/// Prints an error of the command line parser as one line.
int fail(const CLI::App& program, const CLI::ParseError& e) {
  const std::string command = command_of(program);
  std::string text = e.what();
  if (const std::string argument = unexpected_argument(program); !argument.empty()) {
    text = io::displayed(argument);
    text += command.empty() && argument[0] != '-' ? ": no such command" : ": unexpected argument";
  }
  text += " (see sluice " + (command.empty() ? std::string() : command + ' ') + "--help)";
  return fail(program, cli::exit_status::refused, text);
}

/// The number of leading arguments that form one common option with its value. 0: the first
/// argument is no common option, or its value is missing.
std::ptrdiff_t common_option(std::span<const std::string> arguments) {
  const std::string& first = arguments.front();
  if (first == "--quiet") return 1;
  for (const std::string_view name : {"--device", "--trace"}) {
    if (first == name) return arguments.size() > 1 ? 2 : 0;
    if (first.starts_with(name) && first[name.size()] == '=') return 1;
  }
  return 0;
}

/// Rearranges the arguments for the parser: it moves common options from before the command to
/// after it, and turns "help gemm" into "gemm --help".
std::vector<std::string> arranged(const CLI::App& program, std::vector<std::string> arguments) {
  auto command = arguments.begin();
  while (command != arguments.end()) {
    const auto count = common_option({command, arguments.end()});
    if (count == 0) break;
    command += count;
  }
  if (command == arguments.end() || command->starts_with('-')) return arguments;
  std::rotate(arguments.begin(), command, command + 1);
  if (arguments.front() != "help") return arguments;
  arguments.erase(arguments.begin());
  if (arguments.empty()) return {"--help"};
  const auto named = program.get_subcommands(
      [&](const CLI::App* one) { return one->get_name() == arguments.front(); });
  if (!named.empty()) arguments.insert(arguments.begin() + 1, "--help");
  return arguments;
}

/// Whether `e` is the failure of a write to standard output whose reader has closed it.
bool has_lost_its_reader(const error& e) {
  if (e.status().library != "libc" || e.status().value != EPIPE) return false;
  pollfd output{STDOUT_FILENO, POLLOUT, 0};
  return ::poll(&output, 1, 0) == 1 && (output.revents & (POLLERR | POLLHUP)) != 0;
}

int run_command(CLI::App& program, int argc, char** argv) {
  try {
    try {
      auto arguments = arranged(program, {argv + std::min(argc, 1), argv + argc});
      std::reverse(arguments.begin(), arguments.end());  // the parser reads from the back
      program.parse(std::move(arguments));
    } catch (const CLI::CallForHelp&) {
      cli::print(program.help());
    } catch (const CLI::CallForVersion& e) {
      cli::print(std::string(e.what()) + '\n');
    }
    return 0;
  } catch (const CLI::RuntimeError& e) {
    return e.get_exit_code();
  } catch (const CLI::ParseError& e) {
    return fail(program, e);
  } catch (...) {
    const error e = current_error();
    // As other programs end in front of `head`, which has read enough.
    if (has_lost_its_reader(e)) return cli::exit_status::failed;
    return fail(program, cli::exit_code(e), e.what());
  }
}

}  // namespace

// NOLINTNEXTLINE(bugprone-exception-escape): only when options contradict, or without memory.
int main(int argc, char** argv) {
  // A write to a closed pipe then fails with an error instead of a signal.
  std::signal(SIGPIPE, SIG_IGN);
  io::remove_partial_files_on_signals();

  CLI::App program("GPU computing with asynchronous actors, from the command line", "sluice");
  program.set_version_flag("--version", cli::version_line());
  program.footer(
      "\"sluice help <command>\" describes a command. The file name \"-\" stands for standard "
      "input or standard output.");
  program.require_subcommand(1);
  cli::add_devices_command(program);
  cli::add_operations_command(program);
  cli::add_gemm_command(program);
  cli::add_conv2d_command(program);
  cli::add_fft_command(program);
  cli::add_random_command(program);
#ifdef SLUICE_HAS_MODELS
  cli::add_run_command(program);
  cli::add_model_command(program);
#endif
  cli::add_mel_command(program);
  cli::add_demo_command(program);
  cli::add_bench_command(program);
  return run_command(program, argc, argv);
}
