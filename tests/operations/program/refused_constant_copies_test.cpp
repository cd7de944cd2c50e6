// SPDX-License-Identifier: Apache-2.0
// Programs on devices that have no memory for some copies of constants.
#include "tests/operations/program/programs.hpp"

#include <sluice/runtime/error.hpp>
#include <sluice/runtime/memory_adaptor.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

/// What a `scarce_resource` grants.
struct memory_limits {
  static constexpr std::size_t unlimited = std::numeric_limits<std::size_t>::max();

  std::atomic<std::size_t> copies{unlimited};  ///< the number of further copies of constants
  std::atomic<std::size_t> bytes{unlimited};   ///< that are held at a time
  std::atomic<std::size_t> held_bytes{0};
};

/// A resource without a budget that refuses what exceeds its limits. One thread allocates at a
/// time.
class scarce_resource final : public memory_adaptor {
 public:
  explicit scarce_resource(std::shared_ptr<memory_limits> limits)
      : memory_adaptor(make_async_resource(), "scarce_resource"), limits_(std::move(limits)) {}

  granted_memory allocate(const allocation_request& request) override {
    const bool is_copy = request.tag.name() == "copies of constants of a program";
    const auto held_bytes = limits_->held_bytes.load();
    if (limits_->bytes < held_bytes || request.bytes > limits_->bytes - held_bytes ||
        (is_copy && limits_->copies == 0)) {
      throw error(errc::out_of_memory, "there is no memory");
    }
    auto granted = upstream().allocate(request);
    limits_->held_bytes += granted.memory.bytes;
    if (is_copy) --limits_->copies;
    return granted;
  }
  void deallocate(allocation memory, stream_ref stream,
                  std::span<const timeline_point> unfinished) noexcept override {
    limits_->held_bytes -= memory.bytes;
    upstream().deallocate(memory, stream, unfinished);
  }
  std::string_view name() const noexcept override { return "scarce"; }

 private:
  std::shared_ptr<memory_limits> limits_;
};

class refused_constant_copies : public programs {
 protected:
  runtime_options options_of_runtime() override {
    runtime_options options;
    options.resource = std::make_unique<scarce_resource>(limits_);
    return options;
  }
  [[nodiscard]] bool on_host() { return runtime().device().id().kind == device_kind::host; }

  std::shared_ptr<memory_limits> limits_ = std::make_shared<memory_limits>();
};

TEST_P(refused_constant_copies, leave_those_of_other_constants_to_later_steps) {
  constexpr std::int64_t count = 1021;
  const auto m = numbers({count, 2});
  const auto x = numbers({3, count});
  program_builder p;
  const auto c = p.constant("m", get(m));
  auto value = p.input("x");
  auto expected = x;
  for (const auto& [column, epsilon] : {std::pair{0, 0.5}, {1, 1.0}, {0, 2.0}}) {
    value = p.add("norm", layer_norm{.x = value, .scale = c.select(1, column), .epsilon = epsilon});
    const auto scale = alone(strided_copy{.x = m.select(1, column)});
    expected = alone(layer_norm{.x = expected, .scale = scale, .epsilon = epsilon});
  }
  // Two steps that are computed together.
  for (const double factor : {2.0, -0.5}) {
    value = p.add("times", affine{.x = value, .factor = factor});
    expected = alone(affine{.x = expected, .factor = factor});
  }
  const auto program = std::move(p).build({value}, {.capture = capture_policy::never});
  limits_->copies = 1;
  const auto known = await_kernels(program, {x});
  constexpr std::size_t norms = 3;
  constexpr std::size_t packed_columns = 1;
  EXPECT_EQ(known.commands, norms + packed_columns + (on_host() ? 1 : 2));
  EXPECT_EQ(bits(results_of({program, {x}})[0]), bits(expected));
}

// The runs pack the columns one after the other, in the same scratch memory.
TEST_P(refused_constant_copies, leave_the_memory_of_runs) {
  constexpr std::int64_t count = 1 << 18;
  constexpr std::size_t bytes = count * sizeof(float);
  constexpr std::int64_t columns = 4;
  const auto m = numbers({count, columns});
  const auto x = numbers({1, count});
  program_builder p;
  const auto c = p.constant("m", get(m));
  auto value = p.input("x");
  for (std::int64_t i = 0; i < columns; ++i) {
    value = p.add("norm", layer_norm{.x = value, .scale = c.select(1, i)});
  }
  const auto program = std::move(p).build({value});
  constexpr std::size_t constant_bytes = columns * bytes;
  constexpr std::size_t scratch_bytes = 3 * bytes;  // two values and a packed column
  constexpr std::size_t result_bytes = bytes;
  limits_->bytes = limits_->held_bytes + constant_bytes + scratch_bytes + result_bytes + bytes / 2;
  const auto known = prepare_of({program, {tensor_spec::of(x)}});
  EXPECT_LE(known.scratch_bytes, scratch_bytes);
  auto y = results_of({program, {x}});
  limits_->bytes = memory_limits::unlimited;
  auto expected = x;
  for (std::int64_t i = 0; i < columns; ++i) {
    const auto scale = alone(strided_copy{.x = m.select(1, i)});
    expected = alone(layer_norm{.x = expected, .scale = scale});
  }
  EXPECT_EQ(bits(y[0]), bits(expected));
}

INSTANTIATE_TEST_SUITE_P(devices, refused_constant_copies, every_device(), parameter_name);

}  // namespace
}  // namespace sluice::test
