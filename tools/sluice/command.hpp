#pragma once

#include <CLI/CLI.hpp>

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::cli {

/// The options that every command takes.
struct common_options {
  std::string device = "auto";                 ///< --device
  std::optional<std::filesystem::path> trace;  ///< --trace
  bool quiet = false;                          ///< --quiet: no summary and no progress
};

/// Adds the command `name` to `program`, with the common options (which are written to `common`)
/// and `--version`. `common` must live until the program has been parsed and run; a command's
/// function keeps its options alive in its callback:
///
///     void add_gemm_command(CLI::App& program) {
///       const auto options = std::make_shared<gemm_options>();
///       CLI::App& command = add_command(program, "gemm", "Multiply two matrices",
///       options->common); command.add_option("A", options->a, "...")->required();
///       command.callback([options] { run(*options); });
///     }
///
/// The callback runs once, after everything was parsed. It returns for exit code 0, throws
/// `sluice::error` for all that goes wrong (see `exit_code`) and `CLI::RuntimeError(code)` to end
/// with another code without a message.
CLI::App& add_command(CLI::App& program, std::string name, std::string description,
                      common_options& common);

/// Add an option or argument for a file that the command reads, or writes. "-" stands for standard
/// input, or standard output.
CLI::Option* add_input(CLI::App& command, std::string name, std::string& path,
                       std::string description);
CLI::Option* add_input(CLI::App& command, std::string name, std::optional<std::string>& path,
                       std::string description);
CLI::Option* add_output(CLI::App& command, std::string name, std::string& path,
                        std::string description);

/// A file of a command, with its option or argument: {"--png", "mel.png"}.
struct named_file {
  std::string_view option;
  std::filesystem::path path;
};

/// Checks, before anything is computed, that every output and the trace can be written, that none
/// of them is the same regular file as an input or another output, by whatever name, and that
/// standard input and standard output are used at most once. @throws error `invalid_argument`,
/// naming the option and the path
void require_distinct_files(const common_options& common, std::vector<named_file> outputs,
                            const std::vector<named_file>& inputs);

/// Prints one line on standard output (`text` without its newline) unless `--quiet` was given or
/// one of `outputs` is standard output itself. Throws `library_failure` when it cannot be written.
void print_summary(const common_options& common, const std::vector<named_file>& outputs,
                   std::string_view text);

/// What `--version` prints, for example "sluice 0.1.0".
std::string version_line();

/// Prints `text` on standard output. Throws `library_failure` when it cannot be written.
void print(std::string_view text);

/// The commands; each in a file of its own.
void add_devices_command(CLI::App& program);
void add_gemm_command(CLI::App& program);
void add_conv2d_command(CLI::App& program);
void add_fft_command(CLI::App& program);
void add_random_command(CLI::App& program);
void add_mel_command(CLI::App& program);
void add_demo_command(CLI::App& program);
void add_bench_command(CLI::App& program);

}  // namespace sluice::cli
