// SPDX-License-Identifier: Apache-2.0
// Numbers instead of tensors: a request with a number has the bits of the same request with a
// tensor of one element.
#include "tests/operations/elementwise/elements.hpp"
#include "tests/operations/program/programs.hpp"

#include <sluice/operations/binary.hpp>
#include <sluice/operations/elementwise.hpp>

#include <gtest/gtest.h>

#include <complex>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

bool takes_type(binary_function f, element_type type) {
  if (is_complex_type(type)) {
    return f <= binary_function::divide || f == binary_function::equal ||
           f == binary_function::not_equal;
  }
  if (is_floating_type(type)) return f < binary_function::bitwise_and;
  return f != binary_function::atan2;
}

class number_operands : public elementwise_test {
 protected:
  /// A number that each type holds, or nearly so.
  scalar draw_number(element_type type) {
    if (type == element_type::boolean) return coin();
    if (is_complex_type(type)) {
      if (coin()) return between(-3, 3);
      return std::complex<double>(static_cast<double>(between(-9, 9)) / 4, 0.1);
    }
    if (!is_floating_type(type)) {
      const bool is_signed = type == element_type::i8 || type == element_type::i16 ||
                             type == element_type::i32 || type == element_type::i64;
      return between(is_signed ? -100 : 0, 100);
    }
    if (is_float8_type(type)) return std::uniform_real_distribution<>(-5, 5)(generator());
    const std::vector<scalar> special{std::numeric_limits<double>::quiet_NaN(),
                                      std::numeric_limits<double>::infinity(), -0.0, 0.1F, 3};
    if (between(0, 3) == 0) return special[static_cast<std::size_t>(between(0, 4))];
    return std::uniform_real_distribution<>(-5, 5)(generator());
  }
  tensor one_element(const scalar& value, element_type type) {
    return run(test_executor(), fill{.value = value, .shape = extents{}, .type = type});
  }
  template <class Operation>
  void expect_same(const Operation& with_number, const Operation& with_tensor) {
    const auto found = run(test_executor(), with_number);
    const auto expected = run(test_executor(), with_tensor);
    ASSERT_EQ(found.shape(), expected.shape());
    ASSERT_EQ(found.type(), expected.type());
    EXPECT_TRUE(contents_of(found) == contents_of(expected));
  }
};

TEST_P(number_operands, have_the_bits_of_a_tensor_of_one_element) {
  for (std::size_t i = 0; i < binary_function_count; ++i) {
    const auto f = static_cast<binary_function>(i);
    for (const auto type : computed_element_types) {
      if (!takes_type(f, type)) continue;
      SCOPED_TRACE(std::string(to_string(type)) + ", function " + std::to_string(i));
      const auto number = draw_number(type);
      const auto one = one_element(number, type);
      const auto x = make(type, random_shape(), drawn::numbers);
      expect_same(binary{.function = f, .a = x.view(), .b = number},
                  binary{.function = f, .a = x.view(), .b = one});
      expect_same(binary{.function = f, .a = number, .b = x.view()},
                  binary{.function = f, .a = one, .b = x.view()});
    }
  }
}

TEST_P(number_operands, of_rows_without_gaps_and_of_other_rows) {
  for (const auto type : {element_type::f32, element_type::f16, element_type::bf16}) {
    for (const std::int64_t count : {1, 7, 1021, 70'001}) {
      for (const std::int64_t offset : {0, 1}) {
        const auto x = make_contiguous(type, {count + offset});
        const auto view = x.view().slice(0, offset, count + offset);
        const auto number = draw_number(type);
        const auto one = one_element(number, type);
        expect_same(multiply(view, number), multiply(view, one));
        expect_same(subtract(number, view), subtract(one, view));
        expect_same(less(view, number), less(view, one));
      }
    }
  }
}

TEST_P(number_operands, work_in_place) {
  const auto x = make(element_type::f32, {5, 7});
  const auto y = run(test_executor(), multiply(x.view(), 2.0F, x.view()));
  EXPECT_EQ(y, x.view());
  expect_elements(y, [&](const extents& i) { return x[i] * number(2); });
  expect_gaps_untouched(x);
}

TEST_P(number_operands, stand_for_a_choice) {
  for (const auto type : all_element_types) {
    SCOPED_TRACE(to_string(type));
    const auto shape = random_shape();
    const auto condition = make(element_type::boolean, part_of(shape));
    const auto x = make(type, shape);
    const auto number = draw_number(type);
    const auto one = one_element(number, type);
    expect_same(where{.condition = condition.view(), .a = x.view(), .b = number},
                where{.condition = condition.view(), .a = x.view(), .b = one});
    expect_same(where{.condition = condition.view(), .a = number, .b = x.view()},
                where{.condition = condition.view(), .a = one, .b = x.view()});
  }
}

TEST_P(number_operands, of_no_elements) {
  const auto x = make(element_type::f32, {3, 0});
  EXPECT_EQ(run(test_executor(), add(x.view(), 1)).shape(), (extents{3, 0}));
}

INSTANTIATE_TEST_SUITE_P(devices, number_operands, every_device(), parameter_name);

class numbers_in_programs : public programs {};

TEST_P(numbers_in_programs, are_operands_of_steps_with_the_names_of_their_operations) {
  program_builder p;
  const auto x = p.input("x");
  const auto half = p.add(multiply(x, 0.5));
  const auto tenth = p.add(multiply(half, 0.2F));
  const auto masked = p.add(where{.condition = p.add(less(tenth, 0)), .a = 0, .b = tenth});
  const auto program = std::move(p).build({masked});
  EXPECT_EQ(program.text(),
            "x = input\n"
            "multiply = multiply(a = x, b = 0.5)\n"
            "multiply 2 = multiply(a = multiply, b = 0.20000000298023224)\n"
            "less = less(a = multiply 2, b = 0)\n"
            "where = where(condition = less, a = 0, b = multiply 2)\n"
            "outputs: where\n");
  const auto x_values = numbers({40, 3});
  const auto found = results_of({program, {x_values}});
  const auto before = values(x_values);
  const auto after = values(found.front());
  for (std::size_t i = 0; i < before.size(); ++i) {
    const float product = before[i] * 0.5F * 0.2F;
    ASSERT_EQ(after[i], product < 0 ? 0 : product);
  }
}

TEST_P(numbers_in_programs, may_be_given_by_each_run) {
  program_builder p;
  const auto x = p.input("x");
  const auto y = p.add("y", add(p.scalar("offset"), x));
  const auto program = std::move(p).build({y});
  EXPECT_EQ(program.text(), "offset = scalar\nx = input\ny = add(b = x, a = offset)\noutputs: y\n");
  const auto x_values = numbers({9});
  const auto before = values(x_values);
  for (const double offset : {1.5, -2.0, 1e10}) {
    const auto after =
        values(results_of({.what = program, .inputs = {x_values}, .scalars = {offset}}).front());
    for (std::size_t i = 0; i < before.size(); ++i) {
      ASSERT_EQ(after[i], static_cast<float>(offset) + before[i]);
    }
  }
}

TEST(operand_or_number, keeps_its_number_in_a_copy) {
  operand_or_number half = 0.5;
  const operand_or_number copy = half;
  EXPECT_TRUE(copy.number().has_value());
}

INSTANTIATE_TEST_SUITE_P(devices, numbers_in_programs, every_device(), parameter_name);

}  // namespace
}  // namespace sluice::test
