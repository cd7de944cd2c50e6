#include "tools/sluice/command.hpp"

#include "tools/io/displayed.hpp"
#include "tools/io/output_file.hpp"

#include <sluice/runtime/device_id.hpp>
#include <sluice/runtime/error.hpp>

#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <system_error>
#include <unistd.h>

namespace sluice::cli {

namespace {

namespace fs = std::filesystem;

/// Whether the file is the one that standard output goes to.
bool is_standard_output(const fs::path& path) {
  struct stat file {};
  struct stat standard_output {};
  return ::stat(path.c_str(), &file) == 0 && ::fstat(STDOUT_FILENO, &standard_output) == 0 &&
         file.st_dev == standard_output.st_dev && file.st_ino == standard_output.st_ino;
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
          "Where to compute: auto (a GPU, else the host), host, cuda or cuda:N [auto]")
      ->type_name("NAME");
  command
      .add_option_function<std::string>(
          "--trace", [&common](const std::string& path) { common.trace = path; },
          "Write the launches as a Chrome/Perfetto trace")
      ->type_name("FILE");
  command.add_flag("--quiet", common.quiet, "Print no summary and no progress");
  command.set_version_flag("--version", "sluice " SLUICE_VERSION);
  return command;
}

bool same_file(const fs::path& a, const fs::path& b) {
  std::error_code failure;
  const auto what = fs::status(a, failure).type();
  if (what != fs::file_type::regular && what != fs::file_type::not_found) return false;
  const fs::path first = fs::weakly_canonical(fs::absolute(a), failure);
  if (failure) return false;
  const fs::path second = fs::weakly_canonical(fs::absolute(b), failure);
  return !failure && first == second;
}

void require_writable(const common_options& common, const std::vector<output>& outputs) {
  std::vector<output> all = outputs;
  if (common.trace) all.push_back({"--trace", *common.trace});
  for (auto one = all.begin(); one != all.end(); ++one) {
    try {
      io::require_writable_folder(one->path);
    } catch (const error& e) {
      throw error(e.code(), std::string(one->option) + ": " + e.what(), e.status(), e.where());
    }
    for (auto earlier = all.begin(); earlier != one; ++earlier) {
      if (same_file(earlier->path, one->path))
        throw error(errc::invalid_argument, std::string(one->option) + ": " +
                                                io::displayed(one->path) + ": is the file of " +
                                                std::string(earlier->option));
    }
  }
}

void print(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0)
    return;
  const int number = errno;
  throw error(errc::library_failure,
              "standard output: could not be written: " + std::generic_category().message(number),
              library_status{"libc", number});
}

void print_summary(const common_options& common, const std::vector<output>& outputs,
                   std::string_view text) {
  if (common.quiet) return;
  for (const output& one : outputs) {
    if (is_standard_output(one.path)) return;
  }
  if (common.trace && is_standard_output(*common.trace)) return;
  print(io::displayed(text) + '\n');
}

}  // namespace sluice::cli
