#include "tools/io/displayed.hpp"
#include "tools/sluice/command.hpp"
#include "tools/sluice/exit_code.hpp"

#include <sluice/runtime/error.hpp>

#include <csignal>
#include <cstdio>
#include <fcntl.h>
#include <string>
#include <string_view>
#include <unistd.h>

namespace {

using namespace sluice;

/// Opens those of the three standard descriptors that are closed, lest an output file become one of
/// them and get what is printed.
void open_standard_descriptors() {
  for (int descriptor = 0; descriptor >= 0 && descriptor <= STDERR_FILENO;) {
    descriptor = ::open("/dev/null", O_RDWR | O_CLOEXEC);
    if (descriptor > STDERR_FILENO) ::close(descriptor);
  }
}

/// The command that was named, or nothing.
std::string command_of(const CLI::App& program) {
  const auto commands = program.get_subcommands();
  return commands.empty() ? std::string() : commands.front()->get_name();
}

int fail(const CLI::App& program, int status, std::string_view text) {
  const std::string line = cli::error_line(command_of(program), text);
  std::fwrite(line.data(), 1, line.size(), stderr);
  return status;
}

/// The first argument that nothing was made of, or nothing.
std::string unexpected_argument(const CLI::App& program) {
  const auto arguments = program.remaining(true);
  return arguments.empty() ? std::string() : arguments.front();
}

/// What the command line parser says, as a clause of our own lines.
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

int run(CLI::App& program, int argc, char** argv) {
  try {
    try {
      program.parse(argc, argv);
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
    return fail(program, cli::exit_code(e), e.what());
  }
}

}  // namespace

int main(int argc, char** argv) {
  open_standard_descriptors();
  // A reader that has gone is an error like any other.
  std::signal(SIGPIPE, SIG_IGN);

  CLI::App program("Asynchronous, actor-based GPU computing from the command line", "sluice");
  program.set_version_flag("--version", "sluice " SLUICE_VERSION);
  program.require_subcommand(1);
  cli::add_devices_command(program);
  cli::add_gemm_command(program);
  cli::add_conv2d_command(program);
  cli::add_fft_command(program);
  cli::add_random_command(program);
  cli::add_mel_command(program);
  cli::add_demo_command(program);
  cli::add_bench_command(program);
  return run(program, argc, argv);
}
