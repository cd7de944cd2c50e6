// SPDX-License-Identifier: Apache-2.0
// The copies of constants of programs in other orders: where they are made, and their memory.
#include "operations/program/constant_copies.hpp"

#include "operations/capture_scope.hpp"
#include "operations/program/executable.hpp"
#include "operations/program/program_graph.hpp"
#include "tests/operations/program/programs.hpp"
#include "tests/support/expect_error.hpp"

#include <sluice/runtime/host_device.hpp>

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <latch>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

using operations::constant_copy;
using copy_ref = std::shared_ptr<const constant_copy>;

constexpr std::size_t mebibyte = std::size_t{1} << 20U;

/// A host device that fails where a test wants it to.
class constant_copies : public programs {
 protected:
  std::shared_ptr<device> opened_device() override {
    if (GetParam() != "host") return programs::opened_device();
    return open_host_device({.faults = faults_});
  }
  [[nodiscard]] bool on_host() { return runtime().device().id().kind == device_kind::host; }
  [[nodiscard]] std::size_t outstanding() { return runtime().statistics().bytes_outstanding; }
  void await_outstanding_below(std::size_t bytes) {
    while (outstanding() >= bytes) runtime().reap_pending();
  }
  /// The `layer_norm` of an input, with a column of a constant as its scale, which is packed.
  program norm_with_column(std::int64_t count) {
    program_builder p;
    const auto c = p.constant("matrix", get(numbers({count, 2})));
    const auto y = p.add("norm", layer_norm{.x = p.input("x"), .scale = c.select(1, 0)});
    return std::move(p).build({y});
  }

  std::shared_ptr<fault_script> faults_ = std::make_shared<fault_script>();
};

TEST_P(constant_copies, of_a_program_have_a_bound_beyond_which_each_run_packs) {
  constexpr std::int64_t count = 1 << 18;  // 1 MiB
  constexpr std::size_t constant_bytes = 2 * mebibyte;
  constexpr std::size_t most = operations::constant_copies::max_bytes(constant_bytes) / mebibyte;
  constexpr std::int64_t rows = count - 32;
  const auto m = numbers({count, 2});
  const auto x = numbers({1, rows});
  program_builder p;
  const auto c = p.constant("m", get(m));
  auto value = p.input("x");
  auto expected = x;
  for (std::int64_t i = 0; i < 26; ++i) {
    // Each step wants other elements.
    value = p.add("norm", layer_norm{.x = value, .scale = c.slice(0, i, i + rows).select(1, 0)});
    const auto column = alone(strided_copy{.x = m.slice(0, i, i + rows).select(1, 0)});
    expected = alone(layer_norm{.x = expected, .scale = column});
  }
  const auto program = std::move(p).build({value}, {.capture = capture_policy::never});
  const auto known = prepare_of({program, {tensor_spec::of(x)}});
  EXPECT_EQ(known.commands, 26 + 26 - most);
  EXPECT_EQ(bits(results_of({program, {x}})[0]), bits(expected));
}

TEST_P(constant_copies, count_as_shared_memory_of_executables) {
  constexpr std::int64_t count = 1024;
  constexpr std::size_t bytes = count * sizeof(float);
  const auto program = norm_with_column(count);
  const auto spec = tensor_spec::row_major(element_type::f32, {1, count});
  const auto run =
      program.graph()->infer(std::array{spec}, {}, std::vector<operations::given_output>(1));
  lane_libraries libraries(runtime(), stream());
  const operations::executable first(*program.graph(), *run.shared, libraries);
  EXPECT_EQ(first.shared_device_bytes(), 3 * bytes) << "the constant and its copy";
  const operations::executable second(*program.graph(), *run.shared, libraries);
  EXPECT_EQ(first.shared_device_bytes(), 3 * bytes / 2);
  EXPECT_EQ(second.shared_device_bytes(), 3 * bytes / 2);
}

TEST_P(constant_copies, are_packed_at_the_next_attempt_after_a_failing_launch) {
  if (!on_host()) GTEST_SKIP() << "launches on a GPU do not fail on demand";
  constexpr std::int64_t count = 500;
  const auto program = norm_with_column(count);
  const auto x = numbers({3, count});
  faults_->fail_nth(fault_target::launch, 1);
  EXPECT_TRUE(throws(errc::library_failure, "step 'norm'", [&] {
    (void)prepare_of({program, {tensor_spec::of(x)}});
  }));
  EXPECT_EQ(prepare_of({program, {tensor_spec::of(x)}}).commands, 1U);
  EXPECT_EQ(results_of({program, {x}})[0].shape(), x.shape());
}

TEST_P(constant_copies, end_with_the_device) {
  if (!on_host()) GTEST_SKIP() << "a GPU is not lost on demand";
  const auto program = norm_with_column(500);
  faults_->fail_nth(fault_target::loss, 2);  // the constants are first
  EXPECT_TRUE(throws(errc::device_lost, "", [&] {
    (void)prepare_of({program, {tensor_spec::row_major(element_type::f32, {3, 500})}});
  }));
}

/// Copies that a test makes itself, on a host device.
class single_constant_copies : public constant_copies {
 protected:
  void SetUp() override {
    constant_copies::SetUp();
    if (IsSkipped()) return;
    if (!on_host()) GTEST_SKIP() << "the copies are computed by functions of the host";
    constants_ = runtime().allocate_bytes(mebibyte, stream(), "constants");
  }
  void TearDown() override {
    constants_ = {};
    libraries_.reset();
    constant_copies::TearDown();
  }
  static operations::constant_copy_request request_of(const std::string& order, std::size_t bytes,
                                                      std::function<void()> write = {}) {
    return {.key = {.packing = order},
            .bytes = bytes,
            .write = [write = std::move(write)](lane_libraries&, const void*, void*) {
              if (write) write();
            }};
  }
  copy_ref copy(const operations::constant_copy_request& request) {
    return copies_.copy(libraries(), request, memory());
  }
  /// Makes the copies at once: both are written at the same time.
  std::pair<copy_ref, copy_ref> copy_on_two_lanes(const std::string& one_order,
                                                  const std::string& other_order,
                                                  std::size_t bytes) {
    std::latch both(2);
    const auto write = [&] {
      both.arrive_and_wait();
    };
    copy_ref one;
    const auto other_stream = runtime().create_stream();
    lane_libraries other_libraries(runtime(), other_stream.ref());
    std::thread lane([&] { one = copy(request_of(one_order, bytes, write)); });
    auto other = copies_.copy(other_libraries, request_of(other_order, bytes, write), memory());
    lane.join();
    return {one, other};
  }
  [[nodiscard]] operations::copied_memory memory() const {
    return {.owner = std::make_shared<const block_ref>(constants_),
            .address = static_cast<const std::byte*>(constants_.address()),
            .constants_bytes = constants_.bytes()};
  }
  lane_libraries& libraries() {
    if (!libraries_) libraries_ = std::make_unique<lane_libraries>(runtime(), stream());
    return *libraries_;
  }

  block_ref constants_;
  operations::constant_copies copies_;
  std::unique_ptr<lane_libraries> libraries_;
};

TEST_P(single_constant_copies, are_made_once_while_they_are_used) {
  std::atomic<int> writes{0};
  const auto write = [&] {
    ++writes;
  };
  auto first = copy(request_of("a", 100, write));
  EXPECT_EQ(first, copy(request_of("a", 100, write)));
  EXPECT_EQ(writes, 1);
  EXPECT_NE(first, copy(request_of("b", 100, write)));
  EXPECT_EQ(writes, 2);
  first.reset();
  EXPECT_NE(copy(request_of("a", 100, write)), nullptr);
  EXPECT_EQ(writes, 3);
}

TEST_P(single_constant_copies, that_two_lanes_make_at_once_become_one) {
  const auto before = outstanding();
  const auto [one, other] = copy_on_two_lanes("a", "a", mebibyte);
  EXPECT_NE(one, nullptr);
  ASSERT_EQ(one, other);
  await_outstanding_below(before + 2 * mebibyte);
}

TEST_P(single_constant_copies, have_a_bound) {
  constexpr auto most = operations::constant_copies::max_bytes(mebibyte);
  std::atomic<int> writes{0};
  auto large = copy(request_of("a", most - mebibyte));
  ASSERT_NE(large, nullptr);
  EXPECT_EQ(copy(request_of("b", mebibyte + 1, [&] { ++writes; })), nullptr);
  EXPECT_EQ(writes, 0);
  EXPECT_EQ(copy(request_of("a", most - mebibyte)), large) << "there is room for what there is";
  const auto small = copy(request_of("b", mebibyte));
  EXPECT_NE(small, nullptr);
  large.reset();
  EXPECT_NE(copy(request_of("c", most - mebibyte)), nullptr);
}

TEST_P(single_constant_copies, have_a_bound_of_the_memory_that_they_take) {
  constexpr auto most = operations::constant_copies::max_bytes(mebibyte);
  constexpr std::size_t bytes = mebibyte + 1;  // pools round it
  const auto memory_bytes = runtime().reserve_memory(std::array{bytes}).left();
  ASSERT_GT(memory_bytes, bytes);
  std::vector<copy_ref> all;
  do {
    all.push_back(copy(request_of("order " + std::to_string(all.size()), bytes)));
  } while (all.back() != nullptr);
  EXPECT_EQ(all.size() - 1, most / memory_bytes);
}

TEST_P(single_constant_copies, that_two_lanes_make_at_once_have_a_bound) {
  const auto [one, other] =
      copy_on_two_lanes("a", "b", operations::constant_copies::max_bytes(mebibyte) / 2 + 1);
  EXPECT_NE(one == nullptr, other == nullptr);
}

TEST_P(single_constant_copies, are_not_made_in_a_capture) {
  std::atomic<int> writes{0};
  const auto there = copy(request_of("a", 100));
  {
    const operations::capture_scope scope(runtime().device());
    EXPECT_EQ(copy(request_of("a", 100)), there);
    EXPECT_EQ(copy(request_of("b", 100, [&] { ++writes; })), nullptr);
    EXPECT_EQ(writes, 0);
  }
  EXPECT_NE(copy(request_of("b", 100, [&] { ++writes; })), nullptr);
  EXPECT_EQ(writes, 1);
}

TEST_P(single_constant_copies, are_made_again_after_a_failure) {
  const auto fail = [] {
    throw std::runtime_error("no copy");
  };
  EXPECT_TRUE(
      throws(errc::library_failure, "no copy", [&] { (void)copy(request_of("a", 100, fail)); }));
  EXPECT_NE(copy(request_of("a", 100)), nullptr);
}

// A captured executable finds the copies of the one that is captured, and makes none.
TEST_P(single_constant_copies, of_an_executable_are_found_in_a_capture) {
  const auto program = norm_with_column(300);
  const auto inferred = [&](std::int64_t rows) {
    const auto spec = tensor_spec::row_major(element_type::f32, {rows, 300});
    return program.graph()
        ->infer(std::array{spec}, {}, std::vector<operations::given_output>(1))
        .shared;
  };
  const auto commands_in_capture = [&](std::int64_t rows) {
    const auto run = inferred(rows);
    const operations::capture_scope scope(runtime().device());
    return operations::executable(*program.graph(), *run, libraries()).step_commands();
  };
  EXPECT_EQ(commands_in_capture(1), 2U);
  const operations::executable runs(*program.graph(), *inferred(1), libraries());
  EXPECT_EQ(runs.step_commands(), 1U);
  EXPECT_EQ(commands_in_capture(1), 1U);
  EXPECT_EQ(commands_in_capture(2), 1U);
}

INSTANTIATE_TEST_SUITE_P(devices, constant_copies, every_device(), parameter_name);
INSTANTIATE_TEST_SUITE_P(devices, single_constant_copies, every_device(), parameter_name);

}  // namespace
}  // namespace sluice::test
