// SPDX-License-Identifier: Apache-2.0
// Steps of programs with packed constants beside other packed operands.
#include "tests/operations/program/programs.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

class packed_step_operands : public programs {
 protected:
  [[nodiscard]] std::int64_t between(std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(generator_);
  }
  tensor typed(const extents& shape, element_type type) {
    return alone(cast{.x = numbers(shape), .type = type});
  }
  std::vector<float> wide(const tensor& x) {
    return values(alone(cast{.x = x, .type = element_type::f32}));
  }
  /// Positive numbers.
  host_tensor squares(const extents& shape) {
    auto all = get(numbers(shape)).to_vector<float>();
    for (auto& number : all) number = number * number + 0.125F;
    return {std::move(all), shape};
  }

 private:
  std::mt19937_64 generator_ = make_generator();
};

// A residual is packed after the filters.
TEST_P(packed_step_operands, of_a_convolution_are_filters_a_residual_and_the_result) {
  for (const auto type : {element_type::f32, element_type::f16, element_type::bf16}) {
    const auto channels = 8 * between(1, 3);
    const auto filters = 8 * between(1, 3);
    const auto n = between(1, 3);
    const auto size = between(5, 13);
    SCOPED_TRACE(std::string(to_string(type)) + " n " + std::to_string(n) + " c " +
                 std::to_string(channels) + " k " + std::to_string(filters) + " size " +
                 std::to_string(size));
    const auto w = typed({filters, channels, 3, 3}, type);
    const extents order{0, 3, 1, 2};
    program_builder p;
    const auto y = p.add("y", conv2d{.x = p.input("x").permute(order),
                                     .w = p.constant("w", get(w)),
                                     .geometry = {.padding = {1, 1}},
                                     .residual = p.input("residual")});
    const auto program = std::move(p).build({y});
    for (int i = 0; i < 4; ++i) {
      const auto x = typed({n, size, size, channels}, type);
      const auto residual = typed({n, filters, size, size}, type);
      const auto expected = wide(alone(conv2d{
          .x = x.permute(order), .w = w, .geometry = {.padding = {1, 1}}, .residual = residual}));
      if (i % 2 == 0) {
        EXPECT_EQ(wide(results_of({program, {x, residual}})[0]), expected);
        continue;
      }
      const auto result = typed({n, filters, size, size}, type);  // packed, too
      (void)results_of({program, {x, residual}, {result}});
      EXPECT_EQ(wide(result), expected);
    }
  }
}

TEST_P(packed_step_operands, of_a_normalization_are_constants_tensors_and_inputs) {
  constexpr std::int64_t channels = 37;
  for (int round = 0; round < 24; ++round) {
    program_builder p;
    const auto x = p.input("x");
    std::vector<run_input> inputs{numbers({2, channels, 5})};
    std::array<operand, 4> operands;
    std::array<tensor, 4> contiguous;
    std::string origins;
    for (std::size_t i = 0; i < operands.size(); ++i) {
      const auto matrix = squares({channels, 3});
      const auto on_device = alone(sluice::upload{.values = matrix});
      contiguous[i] = alone(strided_copy{.x = on_device.select(1, 1)});
      const auto name = "parameter " + std::to_string(i);
      switch (const auto origin = between(0, 4); origin) {
        case 0:
          operands[i] = p.constant(name, matrix).select(1, 1);
          origins += "constant, ";
          break;
        case 1:
          operands[i] = p.constant(name, get(contiguous[i]));
          origins += "constant without gaps, ";
          break;
        case 2:
          operands[i] = p.constant(name, on_device).select(1, 1);
          origins += "tensor, ";
          break;
        default:
          operands[i] = origin == 3 ? p.input(name).select(1, 1) : p.input(name);
          inputs.emplace_back(origin == 3 ? on_device : contiguous[i]);
          origins += origin == 3 ? "input, " : "input without gaps, ";
      }
    }
    SCOPED_TRACE(origins);
    const auto norm = [](const operand& in, const auto& parameters) {
      return batch_norm{.x = in,
                        .mean = parameters[0],
                        .variance = parameters[1],
                        .scale = parameters[2],
                        .bias = parameters[3]};
    };
    const auto program = std::move(p).build({p.add("norm", norm(x, operands))});
    for (int i = 0; i < 2; ++i) {
      const auto images = numbers({2, channels, 5});
      inputs[0] = images;
      EXPECT_EQ(bits(results_of({program, inputs})[0]), bits(alone(norm(images, contiguous))));
    }
  }
}

TEST_P(packed_step_operands, may_be_one_constant_twice) {
  const auto numbers_of_c = numbers({17, 17, 2});
  const auto matrix = alone(strided_copy{.x = numbers_of_c.select(2, 1)});
  program_builder p;
  const auto c = p.constant("c", get(numbers_of_c)).select(2, 1);
  const auto product = p.add("product", gemm{.a = c, .b = c, .c = p.input("sum"), .beta = 1});
  const auto program = std::move(p).build({product});
  const auto expected = [&](const tensor& sum) {
    return bits(
        alone(gemm{.a = matrix, .b = matrix, .c = alone(strided_copy{.x = sum}), .beta = 1}));
  };
  for (int i = 0; i < 2; ++i) {
    const auto sum = numbers({17, 17});
    EXPECT_EQ(bits(results_of({program, {sum}})[0]), expected(sum));
  }
}

INSTANTIATE_TEST_SUITE_P(devices, packed_step_operands, every_device(), parameter_name);

}  // namespace
}  // namespace sluice::test
