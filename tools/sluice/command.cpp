// SPDX-License-Identifier: Apache-2.0
#include "tools/sluice/command.hpp"

#include "tools/io/displayed.hpp"
#include "tools/io/output_file.hpp"
#include "tools/sluice/exit_code.hpp"

#include <sluice/runtime/device_id.hpp>
#include <sluice/runtime/error.hpp>
#include <sluice/version.hpp>

#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <system_error>
#include <unistd.h>

namespace sluice::cli {

namespace {

namespace fs = std::filesystem;

/// Whether standard output writes to this file.
bool is_standard_output(const fs::path& path) {
  struct stat file {};
  struct stat output {};
  return ::stat(path.c_str(), &file) == 0 && ::fstat(STDOUT_FILENO, &output) == 0 &&
         file.st_dev == output.st_dev && file.st_ino == output.st_ino;
}

/// Replaces "-" by `path`.
CLI::Option* named_standard(CLI::Option* option, std::string_view path) {
  return option->transform(
      [path](const std::string& text) { return text == "-" ? std::string(path) : text; });
}

[[noreturn]] void refuse_twice(const named_file& one, std::string_view description,
                               const named_file& other) {
  throw error(errc::invalid_argument, std::string(one.option) + ": " + io::displayed(one.path) +
                                          ": " + std::string(description) + ' ' +
                                          std::string(other.option));
}

/// Refuses a second use of the standard stream `stream`.
void refuse_second(const std::vector<named_file>& files, std::string_view stream) {
  const named_file* first = nullptr;
  for (const named_file& file : files) {
    if (file.path != stream) continue;
    if (first != nullptr) refuse_twice(file, "is already used by", *first);
    first = &file;
  }
}

void require_known_device(const std::string& name) {
  if (name == "auto") return;
  try {
    static_cast<void>(parse_device_id(name));
  } catch (const error& e) {
    throw error(e.code(), std::string("--device: ") + e.what());
  }
}

}  // namespace

CLI::App& add_command(CLI::App& program, std::string name, std::string description,
                      common_options& common) {
  CLI::App& command = *program.add_subcommand(std::move(name), std::move(description));
  command
      .add_option_function<std::string>(
          "--device",
          [&common](const std::string& device) {
            require_known_device(device);
            common.device = device;
          },
          "Device: auto (the first GPU, else the host), host, cuda or cuda:N [auto]")
      ->type_name("NAME");
  command
      .add_option_function<std::string>(
          "--trace",
          [&common](const std::string& path) {
            common.trace = path == "-" ? std::string(standard_output) : path;
          },
          "Write a Chrome/Perfetto trace of the first 65536 launches; a name that ends in .png "
          "gets a "
          "picture of some of them")
      ->type_name("FILE");
  command.add_flag("--quiet", common.quiet, "Print no summary and no progress");
  command.set_version_flag("--version", version_line());
  return command;
}

std::string version_line() {
  return "sluice " + std::string(version);
}

CLI::Option* add_input(CLI::App& command, std::string name, std::string& path,
                       std::string description) {
  return named_standard(command.add_option(std::move(name), path, std::move(description)),
                        standard_input);
}

CLI::Option* add_input(CLI::App& command, std::string name, std::optional<std::string>& path,
                       std::string description) {
  return named_standard(command.add_option(std::move(name), path, std::move(description)),
                        standard_input);
}

CLI::Option* add_output(CLI::App& command, std::string name, std::string& path,
                        std::string description) {
  return named_standard(command.add_option(std::move(name), path, std::move(description)),
                        standard_output);
}

void require_distinct_files(const common_options& common, std::vector<named_file> outputs,
                            const std::vector<named_file>& inputs) {
  if (common.trace) outputs.push_back({"--trace", *common.trace});
  for (auto one = outputs.begin(); one != outputs.end(); ++one) {
    try {
      io::require_writable_folder(one->path);
    } catch (const error& e) {
      throw error(e.code(), std::string(one->option) + ": " + e.what(), e.status(), e.where());
    }
    const auto identity = io::identity_of(one->path);
    for (const named_file& input : inputs) {
      if (identity && identity == io::identity_of(input.path))
        refuse_twice(*one, "is the same file as the input", input);
    }
    for (auto earlier = outputs.begin(); earlier != one; ++earlier) {
      if (identity && identity == io::identity_of(earlier->path))
        refuse_twice(*one, "is the same file as the output", *earlier);
    }
  }
  refuse_second(outputs, standard_output);
  refuse_second(inputs, standard_input);
}

void print(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0)
    return;
  const int number = errno;
  throw error(errc::library_failure,
              "standard output: could not be written: " + std::generic_category().message(number),
              library_status{"libc", number});
}

void print_warning(std::string_view command, std::string_view text) {
  const std::string line = error_line(command, "warning: " + std::string(text));
  std::fwrite(line.data(), 1, line.size(), stderr);
}

void print_summary(const common_options& common, const std::vector<named_file>& outputs,
                   std::string_view text) {
  if (common.quiet) return;
  for (const named_file& one : outputs) {
    if (is_standard_output(one.path)) return;
  }
  if (common.trace && is_standard_output(*common.trace)) return;
  print(io::displayed(text) + '\n');
}

}  // namespace sluice::cli
