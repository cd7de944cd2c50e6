// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::cli {

/// The options of every command.
struct common_options {
  std::string device = "auto";                 ///< --device
  std::optional<std::filesystem::path> trace;  ///< --trace
  bool quiet = false;                          ///< --quiet: no summary and no progress
};

/// Adds the command `name` to `program`, with `--version` and the common options. The parser writes
/// these to `common`, which must live until the command has run. The callback of a command keeps
/// its options alive:
///
///     void add_gemm_command(CLI::App& program) {
///       const auto options = std::make_shared<gemm_options>();
///       CLI::App& command = add_command(program, "gemm", "...", options->common);
///       add_input(command, "A", options->a, "...")->required();
///       command.callback([options] { run(*options); });
///     }
///
/// The callback runs once, after parsing. It returns for exit code 0 and throws `sluice::error` for
/// any failure (see `exit_code`). `CLI::RuntimeError(code)` ends the program with that exit code
/// and no message.
CLI::App& add_command(CLI::App& program, std::string name, std::string description,
                      common_options& common);

/// The paths for which "-" stands as an input and as an output.
inline constexpr std::string_view standard_input = "/dev/stdin";
inline constexpr std::string_view standard_output = "/dev/stdout";

/// Add an option or argument that names a file. `add_input` reads the file and `add_output` writes
/// it. The name "-" stands for standard input or standard output.
CLI::Option* add_input(CLI::App& command, std::string name, std::string& path,
                       std::string description);
CLI::Option* add_input(CLI::App& command, std::string name, std::optional<std::string>& path,
                       std::string description);
CLI::Option* add_output(CLI::App& command, std::string name, std::string& path,
                        std::string description);

/// A file of a command and the option or argument that names it: {"--png", "mel.png"}.
struct named_file {
  std::string_view option;
  std::filesystem::path path;
};

/// Checks the files of a command before it computes anything: every output and the trace can be
/// written; none of them is the same regular file as an input or another output, even under a
/// different name; standard input and standard output are used at most once each.
/// @throws error `invalid_argument`, naming the option and the path
void require_distinct_files(const common_options& common, std::vector<named_file> outputs,
                            const std::vector<named_file>& inputs);

/// Prints `text` and a newline on standard output. Prints nothing with `--quiet`, or if one of
/// `outputs` is standard output. @throws error `library_failure` if the write fails
void print_summary(const common_options& common, const std::vector<named_file>& outputs,
                   std::string_view text);

/// Prints "sluice mel: warning: <text>" and a newline on standard error, also with `--quiet`.
/// `command` is the name of the command.
void print_warning(std::string_view command, std::string_view text);

/// What `--version` prints, for example "sluice 0.1.0".
std::string version_line();

/// Prints `text` on standard output. @throws error `library_failure` if the write fails
void print(std::string_view text);

/// The commands, each in its own file.
void add_devices_command(CLI::App& program);
void add_operations_command(CLI::App& program);
void add_gemm_command(CLI::App& program);
void add_conv2d_command(CLI::App& program);
void add_fft_command(CLI::App& program);
void add_random_command(CLI::App& program);
/// Only if the library that reads models is built.
///@{
void add_run_command(CLI::App& program);
void add_model_command(CLI::App& program);
///@}
void add_mel_command(CLI::App& program);
void add_demo_command(CLI::App& program);
void add_bench_command(CLI::App& program);

}  // namespace sluice::cli
