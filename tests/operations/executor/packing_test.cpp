// SPDX-License-Identifier: Apache-2.0
// Packed operands: what they cost, and what remains if there is no memory for them.
#include "operations/executor/packing.hpp"

#include "tests/operations/executing.hpp"
#include "tests/operations/strided.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/seed.hpp"

#include <sluice/operations/blas.hpp>
#include <sluice/operations/inference.hpp>
#include <sluice/operations/rng.hpp>
#include <sluice/runtime/memory_budget.hpp>

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>

namespace sluice::test {
namespace {

class packed_operands : public executor_test {
 protected:
  void SetUp() override {
    executor_test::SetUp();
    if (IsSkipped()) return;
    // Libraries allocate their own memory at their first use.
    const auto x = make(2);
    (void)run(test_executor(), gemm{.a = x.view(), .b = x.view()});
    (void)run(test_executor(), random_normal{.shape = extents{2}, .type = element_type::f64});
  }
  runtime_options options_of_runtime() override {
    return {.resource = make_budget_resource(make_async_resource(), budget_)};
  }
  /// A square matrix of f64 without a contiguous dimension.
  strided<double> make(std::int64_t n) {
    return {runtime(), stream(), generator_, {.shape = {n, n}, .gaps = {1, 1}}};
  }
  /// The statistics once the memory of completed launches has been freed.
  runtime_statistics settled() {
    runtime().reap_pending();
    return runtime().statistics();
  }
  /// The memory that a library of a GPU takes at its first use hides later peaks.
  void expect_peak(std::size_t bytes) {
    if (runtime().device().id().kind == device_kind::host) {
      EXPECT_EQ(settled().peak_bytes, bytes);
    }
  }
  [[nodiscard]] memory_budget& budget() { return *budget_; }

 private:
  std::shared_ptr<memory_budget> budget_ = std::make_shared<memory_budget>();
  std::mt19937_64 generator_ = make_generator();
};

TEST_P(packed_operands, take_memory_until_the_launch_has_completed) {
  const auto x = make(8);
  const auto y = make(8);
  const auto before = settled();
  (void)run(test_executor(), gemm{.a = x.view(), .b = x.view(), .c = y.view(), .beta = 1});
  const auto after = settled();
  EXPECT_EQ(after.bytes_outstanding, before.bytes_outstanding);
  EXPECT_EQ(after.blocks, before.blocks);
  EXPECT_EQ(after.references, before.references);
  expect_peak(before.bytes_outstanding + 3 * 8 * 8 * sizeof(double));
}

TEST_P(packed_operands, are_only_those_whose_layout_the_operation_does_not_take) {
  const auto matrix = [&] {
    return tensor(runtime().allocate<double>(64, stream(), "matrix")).reshape({8, 8});
  };
  const auto x = matrix();
  const auto y = matrix();
  const auto before = settled();
  (void)run(test_executor(), gemm{.a = x, .b = x.transposed(), .c = y});
  (void)run(test_executor(), random_normal{.y = y});
  expect_peak(before.peak_bytes);
  (void)run(test_executor(), random_normal{.y = y.transposed()});
  expect_peak(before.bytes_outstanding + y.bytes());
}

TEST_P(packed_operands, without_memory_launch_nothing) {
  const auto x = make(8);
  const auto y = make(8);
  const auto stay_as_they_are = [&](const gemm& operation) {
    const auto before = settled();
    EXPECT_TRUE(throws(errc::over_budget, "", [&] { (void)run(test_executor(), operation); }));
    const auto after = settled();
    EXPECT_EQ(after.launches, before.launches);
    EXPECT_EQ(after.blocks, before.blocks);
    EXPECT_EQ(after.references, before.references);
    EXPECT_EQ(y.current(), y.memory());
  };
  const gemm small{.a = x.view(), .b = x.view(), .c = y.view(), .beta = 1};
  constexpr auto many = std::int64_t{1} << 24U;
  const auto large = x.view().slice(0, 0, 1).slice(1, 0, 1).broadcast_to({8, many});
  const gemm too_large{.a = large, .b = large.transposed(), .c = y.view()};

  budget().set_limit(budget().snapshot().held + (std::size_t{64} << 20U));
  stay_as_they_are(too_large);
  (void)run(test_executor(), small);
  EXPECT_NE(y.current(), y.memory());
}

TEST_P(packed_operands, count_their_copies_as_commands) {
  const auto value = make(2).view();
  const tensor packed(runtime().allocate<double>(4, stream(), "packed").block(), element_type::f64,
                      {2, 2});
  operations::packing copies;
  copies.add(value, packed, access_kind::read);
  EXPECT_EQ(copies.commands(), 1U);
  copies.add(value, packed, access_kind::write);
  EXPECT_EQ(copies.commands(), 2U);
  copies.add(value, packed, access_kind::read_write);
  EXPECT_EQ(copies.commands(), 4U);
}

// An operation that cancels its launch has still read its operands if they were packed.
TEST_P(packed_operands, that_are_read_leave_nothing_to_cancel) {
  const auto value = make(2).view();
  const tensor packed(runtime().allocate<double>(4, stream(), "packed").block(), element_type::f64,
                      {2, 2});
  lane_libraries libraries(runtime(), stream());
  const auto cancels = [&](access_kind access) {
    operations::packing copies;
    copies.add(value, packed, access);
    auto recorder = launch_recorder::strict(stream());
    recorder.use(value.block(), access_kind::read_write, false)
        .use(packed.block(), access_kind::read_write, true);
    recorder.preflight();
    bool cancelled = false;
    try {
      copies.enqueue(libraries,
                     [] { throw nothing_enqueued(error(errc::unsupported, "scripted")); });
    } catch (const nothing_enqueued&) {
      cancelled = true;
    } catch (const error& e) {
      EXPECT_EQ(e.code(), errc::unsupported);
    }
    recorder.commit();
    stream().synchronize();
    return cancelled;
  };
  EXPECT_TRUE(cancels(access_kind::write));
  EXPECT_FALSE(cancels(access_kind::read));
  EXPECT_FALSE(cancels(access_kind::read_write));
}

INSTANTIATE_TEST_SUITE_P(devices, packed_operands, every_device(), parameter_name);

TEST(inference_packs, an_output_that_is_not_given_by_making_it_row_major) {
  gemm operation;
  inference_of<detail::operand_count<gemm>()> inference(detail::operands_of(operation));
  const auto& c = inference.result(operation.c, element_type::f32, {2, 3}, {1, 0});
  EXPECT_EQ(c.strides, (extents{1, 2}));
  EXPECT_EQ(inference.pack(operation.c), tensor_spec::row_major(element_type::f32, {2, 3}));
  EXPECT_TRUE(c.is_contiguous());
  EXPECT_FALSE(inference.uses()[2].packed);
}

TEST(inference_packs, no_input_that_is_not_given) {
  gemm operation;
  inference_of<detail::operand_count<gemm>()> inference(detail::operands_of(operation));
  EXPECT_TRUE(throws(errc::invalid_argument, "a: is not given",
                     [&] { (void)inference.pack(operation.a); }));
}

}  // namespace
}  // namespace sluice::test
