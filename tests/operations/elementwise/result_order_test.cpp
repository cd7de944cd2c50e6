// SPDX-License-Identifier: Apache-2.0
// New results of element-wise operations keep the order of the dimensions in memory.
#include "tests/operations/elementwise/elements.hpp"

#include <sluice/operations.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <initializer_list>
#include <utility>

namespace sluice::test {
namespace {

class result_order : public elementwise_test {
 protected:
  /// The tensor of the shape `shape` whose dimensions lie without gaps in the order `order`.
  elements in_order(element_type type, const extents& shape, const extents& order) {
    return {runtime(), stream(), generator(), type, {.shape = shape, .order = order}};
  }
  extents random_order(std::size_t rank) {
    extents order;
    for (std::size_t d = 0; d < rank; ++d) order.push_back(static_cast<std::int64_t>(d));
    for (std::size_t d = rank; d > 1; --d) {
      std::swap(order[d - 1],
                order[static_cast<std::size_t>(between(0, static_cast<std::int64_t>(d) - 1))]);
    }
    return order;
  }
  tensor row_major(const tensor& x) { return run(test_executor(), strided_copy{.x = x}); }
  void expect_equal_bits(const tensor& a, const tensor& b) {
    const auto bytes = contents_of(row_major(a));
    EXPECT_TRUE(bytes == contents_of(row_major(b)));
  }
  /// Expects that `operation(tensors...)` lies as the first of them, and has the bits of that of
  /// row-major copies.
  template <class MakeOperation, class... Tensors>
  void expect_order_and_bits(const MakeOperation& make_operation, const tensor& x,
                             const Tensors&... others) {
    const auto first = [](auto result) {
      if constexpr (requires { result.front(); }) {
        return result.front();
      } else {
        return result;
      }
    };
    const auto y = first(run(test_executor(), make_operation(x, others...)));
    expect_order_of({x, others...}, y);
    expect_equal_bits(
        y, first(run(test_executor(), make_operation(row_major(x), row_major(others)...))));
  }
};

TEST_P(result_order, is_that_of_x) {
  for (int round = 0; round < 12; ++round) {
    const extents shape{between(1, 4), between(1, 9), between(1, 7), between(1, 40)};
    const auto order = random_order(4);
    SCOPED_TRACE(to_string(shape) + " in the order " + to_string(order));
    const auto x = in_order(element_type::f32, shape, order);
    const auto again = in_order(element_type::f32, shape, order);
    const auto scale = make(element_type::f32, {shape[1]});
    const auto condition = in_order(element_type::boolean, shape, order);
    const auto bytes = in_order(element_type::u8, shape, order);
    const auto waves = in_order(element_type::c64, shape, order);
    expect_order_and_bits([](const tensor& t) { return silu(t); }, x.view());
    expect_order_and_bits([](const tensor& t) { return isnan(t); }, x.view());
    expect_order_and_bits([](const tensor& t) { return cast{.x = t, .type = element_type::f16}; },
                          x.view());
    expect_order_and_bits(
        [&](const tensor& t) { return affine{.x = t, .scale = scale.view(), .axis = 1}; },
        x.view());
    expect_order_and_bits(
        [&](const tensor& t) { return quantize{.x = t, .scale = scale.view(), .axis = 1}; },
        x.view());
    expect_order_and_bits(
        [&](const tensor& t) { return dequantize{.x = t, .scale = scale.view(), .axis = 1}; },
        bytes.view());
    expect_order_and_bits([](const tensor& t) { return dynamic_quantize{.x = t}; }, x.view());
    expect_order_and_bits([](const tensor& t) { return triangle{.x = t}; }, x.view());
    expect_order_and_bits([](const tensor& t) { return power_spectrum{.x = t}; }, waves.view());
    expect_order_and_bits(
        [](const tensor& t, const tensor& reference) {
          return power_to_decibel{.x = t, .reference = reference};
        },
        x.view(), again.view());
    expect_order_and_bits([](const tensor& a, const tensor& b) { return add(a, b); }, x.view(),
                          again.view());
    expect_order_and_bits([](const tensor& c, const tensor& a,
                             const tensor& b) { return where{.condition = c, .a = a, .b = b}; },
                          condition.view(), x.view(), again.view());
  }
}

TEST_P(result_order, is_that_of_the_first_operand_that_is_not_repeated) {
  const auto last = in_order(element_type::f32, {3, 4, 5, 6}, {0, 2, 3, 1});
  const auto first = make_contiguous(element_type::f32, {3, 4, 5, 6});
  const auto channel = make_contiguous(element_type::f32, {4, 1, 1});
  const auto repeated = channel.view().broadcast_to({3, 4, 5, 6});
  const extents strides{120, 1, 24, 4};
  for (const auto& sum : {add(channel.view(), last.view()), add(last.view(), channel.view()),
                          add(repeated, last.view()), add(2, last.view()), add(last.view(), 2),
                          add(last.view(), first.view())}) {
    EXPECT_EQ(run(test_executor(), sum).strides(), strides);
  }
  EXPECT_TRUE(run(test_executor(), add(first.view(), last.view())).is_contiguous());
  EXPECT_TRUE(run(test_executor(), add(repeated, 1)).is_contiguous());
  const auto condition = make_contiguous(element_type::boolean, {6});
  EXPECT_EQ(run(test_executor(), where{.condition = condition.view(), .a = 0, .b = last.view()})
                .strides(),
            strides);
  // Two of three dimensions each, so no operand has the shape of the result.
  const auto row = in_order(element_type::f32, {1, 4, 5}, {2, 1, 0});
  const auto column = in_order(element_type::f32, {3, 4, 1}, {2, 1, 0});
  EXPECT_TRUE(run(test_executor(), add(row.view(), column.view())).is_contiguous());
}

TEST_P(result_order, is_that_of_parts_of_x) {
  const auto x = in_order(element_type::f32, {2, 8, 5, 6}, {0, 2, 3, 1});
  const auto half = run(test_executor(), relu(x.view().slice(1, 4, 8)));
  EXPECT_EQ(half.strides(), (extents{120, 1, 24, 4}));
  expect_equal_bits(half, run(test_executor(), relu(row_major(x.view()).slice(1, 4, 8))));
  const auto rows = make_contiguous(element_type::f32, {6, 8});
  EXPECT_TRUE(run(test_executor(), relu(rows.view().slice(1, 0, 3))).is_contiguous());
}

// The strides of dimensions of one element may be any numbers.
TEST_P(result_order, is_row_major_of_x_that_counts_as_contiguous) {
  const auto memory = make_contiguous(element_type::f32, {60});
  const auto view = [&](const extents& shape, const extents& strides) {
    return tensor(memory.view().block(), element_type::f32, shape, strides);
  };
  for (const auto& x : {view({1, 4, 1, 5}, {1, 5, 1, 1}), view({4, 1, 5}, {5, 1, 1}),
                        view({1, 1}, {1, 7}), view({3, 4, 1, 1}, {4, 1, 4, 4})}) {
    EXPECT_EQ(run(test_executor(), negate(x)).strides(),
              tensor_spec::row_major(element_type::f32, x.shape()).strides);
  }
}

TEST_P(result_order, is_row_major_of_copies) {
  const auto x = in_order(element_type::f32, {2, 3, 4, 5}, {0, 2, 3, 1});
  EXPECT_TRUE(run(test_executor(), strided_copy{.x = x.view()}).is_contiguous());
}

INSTANTIATE_TEST_SUITE_P(devices, result_order, every_device(), parameter_name);

}  // namespace
}  // namespace sluice::test
