// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/tools/io/files.hpp"
#include "tools/io/npy.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::test {

/// How a run of the program ended and what it said.
struct program_outcome {
  int status = -1;     ///< the exit code; 128 + n after signal n
  std::string output;  ///< standard output
  std::string errors;  ///< standard error
};

/// The program under test: the environment variable SLUICE_PROGRAM, else `../sluice` beside the
/// folder of the test program.
[[nodiscard]] std::filesystem::path program_path();

/// Runs the program in `folder` and waits for its end. `prepare` runs in the child just before the
/// program takes its place: limits, descriptors, users.
[[nodiscard]] program_outcome run_program(
    const std::filesystem::path& folder, const std::vector<std::string>& arguments,
    const std::function<void()>& prepare = [] {});

/// The devices to try the commands on: "host", and "cuda" where there is a GPU.
[[nodiscard]] const std::vector<std::string>& program_devices();

/// A temporary folder in which the program runs.
class program_test : public ::testing::Test {
 protected:
  [[nodiscard]] program_outcome run(
      const std::vector<std::string>& arguments,
      const std::function<void()>& prepare = [] {}) const {
    return run_program(folder_.path(), arguments, prepare);
  }

  /// Writes an array into the folder.
  template <element T>
  void save(std::string_view name, const std::vector<std::int64_t>& shape,
            const std::vector<T>& values) const {
    io::write_npy(folder_ / name, element_type_v<T>, shape, std::as_bytes(std::span(values)));
  }
  [[nodiscard]] io::array load(std::string_view name) const { return io::read_npy(folder_ / name); }

  /// Expects exit code 0 and silence on standard error.
  void expect_success(const std::vector<std::string>& arguments) const;

  /// Expects that the program ends with `status` and one line on standard error that holds all of
  /// `words`, prints nothing, and leaves "out.npy", which exists before, and the folder as they
  /// were.
  void expect_error(
      int status, const std::vector<std::string>& words, const std::vector<std::string>& arguments,
      const std::function<void()>& prepare = [] {}) const;
  /// The same for exit code 2.
  void expect_refused(const std::vector<std::string>& words,
                      const std::vector<std::string>& arguments) const {
    expect_error(2, words, arguments);
  }

  [[nodiscard]] const temporary_folder& folder() const noexcept { return folder_; }

 private:
  temporary_folder folder_;
};

/// Expects that `file` begins as NumPy writes version 1.0 for this type and shape in C order.
void expect_npy_header(const std::filesystem::path& file, std::string_view descr,
                       const std::vector<std::int64_t>& shape);

/// A `.npy` file of version 1.0 with this dictionary entry for each property and these elements.
[[nodiscard]] std::string npy_file(std::string_view descr, bool fortran_order,
                                   std::string_view shape, std::string_view elements);

/// A whole number from `smallest` to `largest`.
inline std::int64_t integer(std::mt19937_64& generator, std::int64_t smallest,
                            std::int64_t largest) {
  return std::uniform_int_distribution<std::int64_t>(smallest, largest)(generator);
}

}  // namespace sluice::test
