// SPDX-License-Identifier: Apache-2.0
// Operations with several outputs: alone, as steps of programs, and with outputs that are left out.
#include "tests/operations/program/programs.hpp"
#include "tests/support/expect_error.hpp"

#include <sluice/operations/indexed_operation.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

/// quotient = a / b and remainder = a mod b, of numbers i32.
struct division {
  operand a{};
  operand b{};
  operand quotient{};
  bool has_remainder = true;
  operand remainder{};

  static constexpr auto members() {
    return std::make_tuple(input("a", &division::a), input("b", &division::b),
                           output("quotient", &division::quotient),
                           parameter("has_remainder", &division::has_remainder),
                           output("remainder", &division::remainder));
  }
  static constexpr std::string_view name = "division";
  static constexpr bool has_kernel = false;
  struct call {
    std::size_t count;
  };
  static call infer(const division& op, inference& inference) {
    const auto& a = inference.require(op.a);
    const auto& b = inference.require(op.b);
    if (b.shape != a.shape) throw inference.refusal(op.b, "has the shape ", b.shape);
    inference.allow_in_place(op.quotient, op.a);
    inference.allow_in_place(op.remainder, op.b);
    inference.result(op.quotient, element_type::i32, a.shape);
    if (op.has_remainder) {
      inference.result(op.remainder, element_type::i32, a.shape);
    } else {
      inference.ignore(op.remainder);
    }
    return {a.size()};
  }
  static auto body(const call& call, const launch_of<division>& launch) {
    (void)call;
    return [a = launch.get<const std::int32_t>(&division::a),
            b = launch.get<const std::int32_t>(&division::b),
            quotient = launch.get<std::int32_t>(&division::quotient),
            remainder = launch.get<std::int32_t>(&division::remainder)](std::size_t i) {
      const auto x = a[i];
      const auto y = b[i];
      quotient[i] = x / y;
      if (remainder != nullptr) remainder[i] = x % y;
    };
  }
};

/// total = total + x, of numbers i32, also in place of x.
struct accumulation {
  operand x{};
  operand total{};

  static constexpr auto members() {
    return std::make_tuple(input("x", &accumulation::x), output("total", &accumulation::total));
  }
  static constexpr std::string_view name = "accumulation";
  static constexpr bool has_kernel = false;
  struct call {
    std::size_t count;
  };
  static call infer(const accumulation& op, inference& inference) {
    inference.update(op.total);
    inference.allow_in_place(op.total, op.x);
    return {inference.result(op.total, element_type::i32, inference.require(op.x).shape).size()};
  }
  static auto body(const call& call, const launch_of<accumulation>& launch) {
    (void)call;
    return [x = launch.get<const std::int32_t>(&accumulation::x),
            total = launch.get<std::int32_t>(&accumulation::total)](std::size_t i) {
      total[i] += x[i];
    };
  }
};

class several_results : public programs {
 protected:
  using numbers_i32 = std::vector<std::int32_t>;

  tensor integers(const numbers_i32& values) {
    return alone(sluice::upload{.values = {values, {static_cast<std::int64_t>(values.size())}}});
  }
  numbers_i32 integers_of(const tensor& x) { return get(x).to_vector<std::int32_t>(); }
};

TEST_P(several_results, are_answered_in_the_order_of_the_outputs) {
  const auto a = integers({17, -9, 4});
  const auto b = integers({5, 4, 4});
  const auto results = run(test_executor(), division{.a = a, .b = b});
  ASSERT_EQ(results.size(), 2U);
  EXPECT_EQ(integers_of(results[0]), (numbers_i32{3, -2, 1}));
  EXPECT_EQ(integers_of(results[1]), (numbers_i32{2, -1, 0}));
  // In place, both at once.
  const auto in_place =
      run(test_executor(), division{.a = a, .b = b, .quotient = a, .remainder = b});
  EXPECT_EQ(in_place, (tensors{a, b}));
  EXPECT_EQ(integers_of(a), (numbers_i32{3, -2, 1}));
  EXPECT_EQ(integers_of(b), (numbers_i32{2, -1, 0}));
}

TEST_P(several_results, are_empty_where_the_launch_makes_none) {
  const auto a = integers({17});
  const auto results =
      run(test_executor(), division{.a = a, .b = integers({5}), .has_remainder = false});
  ASSERT_EQ(results.size(), 2U);
  EXPECT_EQ(integers_of(results[0]), numbers_i32{3});
  EXPECT_FALSE(results[1]);
}

TEST_P(several_results, are_refused_by_name_and_as_a_whole) {
  const auto a = integers({17});
  const auto before = runtime().statistics();
  EXPECT_TRUE(throws(errc::invalid_argument, "quotient: shares memory with remainder", [&] {
    const auto both = integers({0});
    (void)run(test_executor(), division{.a = a, .b = a, .quotient = both, .remainder = both});
  }));
  EXPECT_TRUE(throws(errc::invalid_argument, "remainder: has the shape", [&] {
    (void)run(test_executor(), division{.a = a, .b = a, .remainder = integers({1, 2})});
  }));
  runtime().reap_pending();
  EXPECT_EQ(runtime().statistics().blocks, before.blocks);
}

TEST_P(several_results, are_values_of_a_program) {
  program_builder p;
  const auto x = p.input("x");
  const auto y = p.input("y");
  const auto parts = p.add("parts", division{.a = x, .b = y});
  ASSERT_EQ(parts.size(), 2U);
  // The second result of a step alone, and a view of the first.
  const auto again = p.add("again", division{.a = parts[0], .b = y});
  const auto sum = p.add("sum", add(parts[1], again[1]));
  const program divide = std::move(p).build({sum, parts[0].reshape({3, 1}), again[0]});
  EXPECT_EQ(divide.text(),
            "x = input\n"
            "y = input\n"
            "parts.quotient, parts.remainder = division(a = x, b = y)\n"
            "again.quotient, again.remainder = division(a = parts.quotient, b = y)\n"
            "sum = add(a = parts.remainder, b = again.remainder)\n"
            "outputs: sum, parts.quotient.reshape([3, 1]), again.quotient\n");
  const auto a = integers({100, 77, -50});
  const auto b = integers({7, 10, 6});
  for (int runs = 0; runs < 2; ++runs) {
    const auto results = results_of({divide, {a, b}});
    ASSERT_EQ(results.size(), 3U);
    EXPECT_EQ(integers_of(results[0]), (numbers_i32{100 % 7 + 14 % 7, 7 + 7, -2 - 2}));
    EXPECT_EQ(integers_of(results[1]), (numbers_i32{14, 7, -8}));
    EXPECT_EQ(integers_of(results[2]), (numbers_i32{2, 0, -1}));
  }
  // Into given outputs, one of them in the memory of an input.
  const auto first = integers({0, 0, 0});
  const auto given = results_of({divide, {a, b}, {first, {}, b}});
  EXPECT_EQ(given[0], first);
  EXPECT_EQ(given[2], b);
  EXPECT_EQ(integers_of(first), (numbers_i32{100 % 7 + 14 % 7, 7 + 7, -2 - 2}));
  EXPECT_EQ(integers_of(b), (numbers_i32{2, 0, -1}));
  EXPECT_EQ(integers_of(a), (numbers_i32{100, 77, -50}));
}

TEST_P(several_results, may_be_written_into_given_outputs_directly) {
  program_builder p;
  const auto x = p.input("x");
  const auto y = p.input("y");
  const auto parts = p.add("parts", division{.a = x, .b = y});
  const program divide = std::move(p).build({parts[1], parts[0]});
  const auto a = integers({100});
  const auto b = integers({7});
  const auto results = results_of({divide, {a, b}, {b, a}});
  EXPECT_EQ(results, (tensors{b, a}));
  EXPECT_EQ(integers_of(a), numbers_i32{14});
  EXPECT_EQ(integers_of(b), numbers_i32{2});
}

TEST_P(several_results, of_an_update_may_replace_the_other_input) {
  program_builder p;
  const auto x = p.input("x");
  const auto total = p.input("total");
  const program accumulate =
      std::move(p).build({p.add("sum", accumulation{.x = x, .total = total})});
  const auto a = integers({1, 2, 3});
  const auto b = integers({10, 20, 30});
  EXPECT_EQ(results_of({accumulate, {a, b}, {a}}), tensors{a});
  EXPECT_EQ(integers_of(a), (numbers_i32{11, 22, 33}));
  EXPECT_EQ(integers_of(b), (numbers_i32{10, 20, 30}));
}

TEST_P(several_results, of_inner_programs_are_results_of_the_outer_one) {
  program_builder inner;
  const auto x = inner.input("x");
  const auto y = inner.input("y");
  const auto parts = inner.add("parts", division{.a = x, .b = y});
  const program divide = std::move(inner).build({parts[1], parts[0]});
  program_builder outer;
  const auto a = outer.input("a");
  const auto b = outer.input("b");
  const auto results = outer.add("divide", divide, {a, b});
  const auto sum = outer.add("sum", add(results[0], results[1]));
  const program both = std::move(outer).build({sum});
  EXPECT_NE(both.text().find("divide.parts.quotient, divide.parts.remainder = division(a = a"),
            std::string::npos);
  EXPECT_EQ(integers_of(results_of({both, {integers({23}), integers({4})}})[0]),
            numbers_i32{5 + 3});
}

TEST_P(several_results, that_a_step_does_not_make_are_refused_where_they_are_used) {
  const auto refuse = [&](const std::string& text, const auto& use) {
    program_builder p;
    const auto x = p.input("x");
    const auto parts = p.add("parts", division{.a = x, .b = x, .has_remainder = false});
    const program divide = std::move(p).build({use(p, parts)});
    EXPECT_TRUE(throws(errc::invalid_argument, text, [&] {
      (void)results_of({divide, {integers({1})}});
    }));
  };
  refuse("step 'sum': 'parts.remainder' is not made", [](program_builder& p, const auto& parts) {
    return p.add("sum", add(parts[1], parts[1]));
  });
  refuse("outputs[0]: 'parts.remainder' is not made",
         [](program_builder&, const auto& parts) { return parts[1]; });
  refuse("view 'parts.remainder.transposed()': 'parts.remainder' is not made",
         [](program_builder&, const auto& parts) { return parts[1].transposed(); });
}

// The operation has no kernel.
INSTANTIATE_TEST_SUITE_P(devices, several_results, ::testing::Values("host"), parameter_name);

}  // namespace
}  // namespace sluice::test
