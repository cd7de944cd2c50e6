// SPDX-License-Identifier: Apache-2.0
// Programs in several processes that share a GPU.
#include "tests/support/compute_sanitizer.hpp"
#include "tests/support/devices.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

/// A process with one test of this program.
class test_process {
 public:
  explicit test_process(const std::string& name) {
    const auto program = std::filesystem::read_symlink("/proc/self/exe").string();
    output_ = ::popen(("'" + program + "' --gtest_filter=" + name + " 2>&1").c_str(), "r");
  }
  test_process(test_process&& other) noexcept : output_(std::exchange(other.output_, nullptr)) {}
  test_process& operator=(test_process&&) = delete;
  ~test_process() {
    if (output_ != nullptr) (void)::pclose(output_);
  }

  /// Waits for its end. Returns what it printed, or nothing if it passed.
  [[nodiscard]] std::string failure() {
    if (output_ == nullptr) return "no process was started";
    std::string printed;
    std::array<char, 4096> part{};
    for (std::size_t n = 0; (n = std::fread(part.data(), 1, part.size(), output_)) != 0;) {
      printed.append(part.data(), n);
    }
    return ::pclose(std::exchange(output_, nullptr)) == 0 ? std::string() : printed;
  }

 private:
  std::FILE* output_ = nullptr;
};

// A kernel that ran in the context of the captures failed in about a fifth of such processes.
TEST(shared_gpu, is_used_by_processes_that_capture_programs) {
  if (!has_device("cuda")) GTEST_SKIP() << "this machine has no GPU";
  SLUICE_SKIP_UNDER_COMPUTE_SANITIZER("it would check this process only");
  constexpr int rounds = 2;
  constexpr int processes = 6;
  for (int round = 0; round < rounds; ++round) {
    std::vector<test_process> all;
    for (int i = 0; i < processes; ++i) {
      all.emplace_back("devices/batched_programs.compute_what_each_run_computes_alone/cuda");
    }
    for (auto& process : all) EXPECT_EQ(process.failure(), "");
  }
}

}  // namespace
}  // namespace sluice::test
