// SPDX-License-Identifier: Apache-2.0
#include "tests/operations/dnn/real_numbers.hpp"
#include "tests/operations/elementwise/elements.hpp"
#include "tests/support/expect_error.hpp"

#include <sluice/operations/local_response_norm.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

namespace sluice::test {
namespace {

class response_operation : public elementwise_test {
 protected:
  void expect_normalized(local_response_norm op, const elements& x) {
    SCOPED_TRACE(std::string(to_string(x.type())) + " " + to_string(x.view().shape()) + " size " +
                 std::to_string(op.size));
    const auto shape = x.view().shape();
    const bool has_output = coin();
    const auto y = make(x.type(), shape);
    op.x = x.view();
    if (has_output) op.y = y.view();
    const auto result = run(test_executor(), op);
    ASSERT_EQ(result.shape(), shape);
    expect_each(result, [&](const extents& index, const number& computed) {
      long double sum = 0;
      for (std::int64_t channel = 0; channel < shape[1]; ++channel) {
        const auto distance = channel - index[1];
        const auto before = (op.size - 1) / 2;
        if (distance < -before || distance > op.size - 1 - before) continue;
        auto neighbour = index;
        neighbour[1] = channel;
        sum += x[neighbour].real() * x[neighbour].real();
      }
      const auto scale = op.alpha / static_cast<long double>(op.size);
      const auto wanted = x[index].real() / std::pow(op.bias + scale * sum, op.beta);
      const auto bound = bound_of(x.type(), wanted, std::abs(wanted), shape[1]);
      return std::abs(computed.real() - wanted) <= bound ? ::testing::AssertionSuccess()
                                                         : ::testing::AssertionFailure()
                                                               << computed.real() << " is not "
                                                               << wanted << ", bound " << bound;
    });
    if (has_output) expect_gaps_untouched(y);
  }
};

TEST_P(response_operation, of_all_types_options_and_strides) {
  for (const auto type : real_types) {
    for (int round = 0; round < 40 && !HasFailure(); ++round) {
      const auto shape = random_shape(2);
      local_response_norm op{.size = between(1, 7)};
      if (coin()) op.alpha = 0.5;
      if (coin()) op.beta = 0.25;
      if (coin()) op.bias = 2;
      expect_normalized(op, make(type, shape));
    }
  }
}

TEST_P(response_operation, of_images_of_both_layouts) {
  for (const auto type : real_types) {
    const extents shape{2, 24, 13, 16};
    expect_normalized({.size = 5}, make_contiguous(type, shape));
    expect_normalized({.size = 4, .alpha = 1}, elements(runtime(), stream(), generator(), type,
                                                        {.shape = shape, .order = {0, 2, 3, 1}}));
  }
  // More elements of a channel than the host keeps, and more channels than there are.
  expect_normalized({.size = 3}, make_contiguous(element_type::f32, {1, 3, 400, 400}));
  expect_normalized({.size = std::int64_t{1} << 62U, .alpha = 1e18},
                    make_contiguous(element_type::f32, {2, 5, 3}));
}

TEST_P(response_operation, of_numbers_whose_squares_are_near_the_limits) {
  for (const double number : {1e126, 1e-125}) {
    auto x = make_contiguous(element_type::f64, {1, 1});
    x.set(std::vector<double>{number});
    expect_normalized({.size = 1, .alpha = 1, .bias = 0}, x);
  }
}

TEST_P(response_operation, of_no_elements) {
  constexpr std::int64_t many = std::int64_t{1} << 40U;
  const auto x = make_contiguous(element_type::f32, {0}).view();
  const auto view = tensor(x.block(), element_type::f32, {many, 0, many, 8});
  EXPECT_EQ(run(test_executor(), local_response_norm{.x = view, .size = 5}).shape(), view.shape());
}

TEST_P(response_operation, refusals) {
  const auto refuse = [&](const std::string& text, const local_response_norm& op) {
    EXPECT_TRUE(throws(errc::invalid_argument, text, [&] { (void)run(test_executor(), op); }))
        << text;
  };
  const auto x = make(element_type::f32, {2, 3, 5}).view();
  refuse("x: is not given", {.size = 5});
  refuse("x: is of type i32", {.x = make(element_type::i32, {2, 3}).view(), .size = 5});
  refuse("x: has the shape [3]", {.x = make(element_type::f32, {3}).view(), .size = 5});
  refuse("size: is 0", {.x = x});
  refuse("size: is -1", {.x = x, .size = -1});
  refuse("alpha: is nan", {.x = x, .size = 5, .alpha = std::nan("")});
  refuse("beta: is inf", {.x = x, .size = 5, .beta = HUGE_VAL});
  refuse("bias: is ", {.x = x, .size = 5, .bias = 1e300});
  refuse("y: has the shape [2, 3]", {.x = x, .size = 5, .y = x.select(2, 0)});
  refuse("y: ", {.x = x, .size = 5, .y = x});
}

INSTANTIATE_TEST_SUITE_P(devices, response_operation, every_device(), parameter_name);

}  // namespace
}  // namespace sluice::test
