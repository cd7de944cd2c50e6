// SPDX-License-Identifier: Apache-2.0
#include "tests/operations/executing.hpp"
#include "tests/operations/strided.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/seed.hpp"

#include <sluice/operations/indexed_operation.hpp>

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <tuple>
#include <vector>

namespace sluice::test {
namespace {

struct difference_body {
  const std::int64_t* a;
  const std::int64_t* b;
  std::int64_t* y;
  void operator()(std::size_t i) const {
    y[i] = static_cast<std::int64_t>(static_cast<std::uint64_t>(a[i]) -
                                     static_cast<std::uint64_t>(b[i]));
  }
};

/// y = a - b for i64 of one shape.
struct difference {
  operand a{};
  operand b{};
  operand y{};
  static constexpr auto members() {
    return std::make_tuple(input("a", &difference::a), input("b", &difference::b),
                           output("y", &difference::y));
  }
  static constexpr std::string_view name = "difference";
  static constexpr bool has_kernel = false;
  struct call {
    std::size_t count;
  };
  static call infer(const difference& op, inference& to) {
    const auto& a = to.require(op.a);
    const auto& b = to.require(op.b);
    if (b.shape != a.shape) throw to.refusal(op.b, "has another shape than a");
    to.result(op.y, element_type::i64, a.shape);
    return {a.size()};
  }
  static difference_body body(const call&, const launch_of<difference>& at) {
    return {at.get<const std::int64_t>(&difference::a), at.get<const std::int64_t>(&difference::b),
            at.get<std::int64_t>(&difference::y)};
  }
};

struct transposing_body {
  std::int64_t rows;
  std::int64_t columns;
  std::int64_t row_stride;
  std::int64_t column_stride;
  const std::int64_t* x;
  std::int64_t* y;
  void operator()(std::size_t i) const {
    const auto at = static_cast<std::int64_t>(i);
    y[i] = x[at / rows * column_stride + at % rows * row_stride];
  }
};

/// y = the transposed matrix x, with a body that takes the strides of x.
struct transposed_copy {
  operand x{};
  operand y{};
  static constexpr auto members() {
    return std::make_tuple(input("x", &transposed_copy::x), output("y", &transposed_copy::y));
  }
  static constexpr std::string_view name = "transposed_copy";
  static constexpr bool has_kernel = false;
  static constexpr bool takes_strides = true;
  struct call {
    std::size_t count;
    std::array<std::int64_t, 2> shape;
    std::array<std::int64_t, 2> strides;
  };
  static call infer(const transposed_copy& op, inference& to) {
    const auto& x = to.require(op.x);
    to.result(op.y, element_type::i64, {x.shape[1], x.shape[0]});
    to.make_contiguous(op.y);
    return {x.size(), {x.shape[0], x.shape[1]}, {x.strides[0], x.strides[1]}};
  }
  static transposing_body body(const call& c, const launch_of<transposed_copy>& at) {
    return {c.shape[0],
            c.shape[1],
            c.strides[0],
            c.strides[1],
            at.get<const std::int64_t>(&transposed_copy::x),
            at.get<std::int64_t>(&transposed_copy::y)};
  }
};

class indexed_operations : public executor_test {};

TEST_P(indexed_operations, get_strides_if_they_take_them) {
  if (runtime().device().id().kind != device_kind::host) GTEST_SKIP() << "has no kernel";
  auto generator = make_generator();
  for (int i = 0; i < 20; ++i) {
    const extents shape{static_cast<std::int64_t>(generator() % 6) + 1,
                        static_cast<std::int64_t>(generator() % 6) + 1};
    const auto x =
        strided<std::int64_t>(runtime(), stream(), generator, random_layout(generator, shape));
    const auto y =
        strided<std::int64_t>(runtime(), stream(), generator, {.shape = {shape[1], shape[0]}});
    EXPECT_EQ(run(on(), transposed_copy{.x = x.view(), .y = y.view()}), y.view());
    auto expected = y.memory();
    for_each_index(shape, [&](const extents& at) { expected[y.position({at[1], at[0]})] = x[at]; });
    EXPECT_EQ(y.current(), expected);
  }
}

TEST_P(indexed_operations, compute_operands_of_any_strides_on_the_host) {
  if (runtime().device().id().kind != device_kind::host) GTEST_SKIP() << "has no kernel";
  auto generator = make_generator();
  for (int i = 0; i < 30; ++i) {
    extents shape;
    for (auto rank = generator() % 4; rank > 0; --rank) {
      shape.push_back(static_cast<std::int64_t>(generator() % 5));
    }
    SCOPED_TRACE(to_string(shape));
    const auto make = [&] {
      return strided<std::int64_t>(runtime(), stream(), generator, random_layout(generator, shape));
    };
    const auto a = make();
    const auto b = make();
    const auto y = make();
    EXPECT_EQ(run(on(), difference{.a = a.view(), .b = b.view(), .y = y.view()}), y.view());
    auto expected = y.memory();
    for_each_index(shape, [&](const extents& at) {
      const auto left = static_cast<std::uint64_t>(a[at]);
      const auto right = static_cast<std::uint64_t>(b[at]);
      expected[y.position(at)] = static_cast<std::int64_t>(left - right);
    });
    EXPECT_EQ(y.current(), expected);
    EXPECT_TRUE(run(on(), difference{.a = a.view(), .b = b.view()}).is_contiguous());
  }
}

TEST_P(indexed_operations, are_refused_by_a_gpu_without_a_kernel) {
  if (runtime().device().id().kind == device_kind::host) GTEST_SKIP() << "computes it";
  const tensor x = runtime().allocate<std::int64_t>(4, stream(), "x");
  EXPECT_TRUE(throws(errc::unsupported, "difference: this build does not have it for GPUs",
                     [&] { (void)run(on(), difference{.a = x, .b = x}); }));
}

TEST_P(indexed_operations, are_named_in_refusals) {
  const tensor x = runtime().allocate<std::int64_t>(4, stream(), "x");
  EXPECT_TRUE(throws(errc::invalid_argument, "b: has another shape than a",
                     [&] { (void)run(on(), difference{.a = x, .b = x.slice(0, 0, 3)}); }));
  EXPECT_EQ(row_of(operation_type<difference>{}).name(), "difference");
  EXPECT_EQ(row_of(operation_type<difference>{}).library(device_kind::host), "own");
}

INSTANTIATE_TEST_SUITE_P(devices, indexed_operations, every_device(), parameter_name);

}  // namespace
}  // namespace sluice::test
