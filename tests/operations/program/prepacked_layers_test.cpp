// SPDX-License-Identifier: Apache-2.0
// Convolutions and recurrent layers whose weights are constants, against the same steps with
// weights that each run gives.
#include "tests/operations/program/programs.hpp"
#include "tests/support/relative_error.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

class prepacked_layers : public programs {
 protected:
  [[nodiscard]] std::int64_t between(std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(generator_);
  }
  host_tensor weights(const extents& shape, element_type type = element_type::f32) {
    return get(numbers(shape)).to(type);
  }
  tensor typed(const extents& shape, element_type type) {
    return alone(cast{.x = numbers(shape), .type = type});
  }
  std::vector<float> wide(const tensor& x) {
    return values(alone(cast{.x = x, .type = element_type::f32}));
  }
  /// The results of a program whose weights are constants, and of one whose weights are inputs.
  /// @param add_step adds the step for x and the weights
  template <class AddStep>
  std::pair<tensors, tensors> both(const tensor& x, const std::vector<host_tensor>& all_weights,
                                   const AddStep& add_step) {
    const auto build = [&](bool is_constant) {
      program_builder p;
      const auto in = p.input("x");
      std::vector<program_value> w;
      for (const auto& each : all_weights) {
        w.push_back(is_constant ? p.constant("w", each) : p.input("w"));
      }
      const program_value y = add_step(p, in, w);
      return std::move(p).build({y});
    };
    std::vector<run_input> inputs{x};
    for (const auto& each : all_weights) inputs.emplace_back(alone(sluice::upload{.values = each}));
    return {results_of({build(true), {x}}), results_of({build(false), inputs})};
  }

 private:
  std::mt19937_64 generator_ = make_generator();
};

TEST_P(prepacked_layers, of_images_are_equal_bit_for_bit) {
  for (const auto type : {element_type::f32, element_type::f16, element_type::bf16}) {
    for (const bool is_last : {false, true}) {
      const auto groups = between(1, 2);
      const auto channels = groups * between(1, 24);
      const auto filters = groups * between(1, 24);
      const auto taps = 2 * between(0, 1) + 1;
      const auto n = between(1, 3);
      const auto size = between(5, 19);
      SCOPED_TRACE(std::string(to_string(type)) + " n " + std::to_string(n) + " c " +
                   std::to_string(channels) + " k " + std::to_string(filters) + " groups " +
                   std::to_string(groups) + " size " + std::to_string(size) + " taps " +
                   std::to_string(taps));
      const auto shape_of = [&](std::int64_t a, std::int64_t b, std::int64_t extent) {
        return is_last ? extents{a, extent, extent, b} : extents{a, b, extent, extent};
      };
      const auto w = weights(shape_of(filters, channels / groups, taps), type);
      const auto bias = weights({filters}, type);
      const auto x = typed(shape_of(n, channels, size), type);
      const auto [constant, given] =
          both(x, {w, bias}, [&](program_builder& p, const auto& in, const auto& all) {
            const auto ordered = [&](const program_value& v) {
              return is_last ? v.permute({0, 3, 1, 2}) : v;
            };
            return p.add("y", conv2d{.x = ordered(in),
                                     .w = ordered(all[0]),
                                     .bias = all[1],
                                     .geometry = {.padding = {1, 1}, .groups = groups},
                                     .activation = activation::relu});
          });
      EXPECT_EQ(wide(constant[0]), wide(given[0]));
    }
  }
}

// Such filters are packed first.
TEST_P(prepacked_layers, of_images_in_another_order_than_filters_are_equal_bit_for_bit) {
  for (const auto type : {element_type::f32, element_type::f16, element_type::bf16}) {
    const auto channels = 8 * between(1, 4);
    const auto filters = 8 * between(1, 4);
    const auto n = between(1, 3);
    const auto size = between(5, 19);
    SCOPED_TRACE(std::string(to_string(type)) + " n " + std::to_string(n) + " c " +
                 std::to_string(channels) + " k " + std::to_string(filters) + " size " +
                 std::to_string(size));
    const auto w = weights({filters, channels, 3, 3}, type);
    const auto x = typed({n, size, size, channels}, type);
    const auto [constant,
                given] = both(x, {w}, [&](program_builder& p, const auto& in, const auto& all) {
      return p.add(
          "y", conv2d{.x = in.permute({0, 3, 1, 2}), .w = all[0], .geometry = {.padding = {1, 1}}});
    });
    EXPECT_EQ(wide(constant[0]), wide(given[0]));
    // A run has the commands and the scratch memory of one with filters in the order of the images.
    const auto known_with = [&](const host_tensor& filter, const extents& order) {
      program_builder p;
      const auto in = p.input("x").permute({0, 3, 1, 2});
      const auto y = p.add("y", conv2d{.x = in,
                                       .w = p.constant("w", filter).permute(order),
                                       .geometry = {.padding = {1, 1}}});
      return prepare_of({std::move(p).build({y}), {tensor_spec::of(x)}});
    };
    const auto packed = known_with(w, {0, 1, 2, 3});
    const auto ordered = known_with(weights({filters, 3, 3, channels}, type), {0, 3, 1, 2});
    EXPECT_EQ(packed.commands, ordered.commands);
    EXPECT_EQ(packed.scratch_bytes, ordered.scratch_bytes);
  }
}

TEST_P(prepacked_layers, of_other_convolutions_are_equal_bit_for_bit) {
  const auto signal = both(numbers({2, 20, 300}), {weights({33, 20, 5})},
                           [](program_builder& p, const auto& x, const auto& w) {
                             return p.add("y", convolution{.x = x, .w = w[0], .dilation = {2}});
                           });
  EXPECT_EQ(bits(signal.first[0]), bits(signal.second[0]));
  const auto volume =
      both(numbers({1, 8, 6, 7, 9}), {weights({16, 8, 3, 3, 3})},
           [](program_builder& p, const auto& x, const auto& w) {
             return p.add("y", convolution{.x = x, .w = w[0], .strides = {2, 1, 2}});
           });
  EXPECT_EQ(bits(volume.first[0]), bits(volume.second[0]));
  const auto transposed =
      both(numbers({2, 16, 9, 11}), {weights({16, 12, 3, 3})},
           [](program_builder& p, const auto& x, const auto& w) {
             return p.add("y", transposed_convolution{.x = x, .w = w[0], .strides = {2, 2}});
           });
  EXPECT_EQ(bits(transposed.first[0]), bits(transposed.second[0]));
}

// Filters that a step takes as a view that begins within the constant.
TEST_P(prepacked_layers, take_views_of_filters) {
  const auto sliced = both(numbers({1, 16, 14, 14}), {weights({64, 16, 3, 3})},
                           [](program_builder& p, const auto& x, const auto& w) {
                             return p.add("y", conv2d{.x = x, .w = w[0].slice(0, 16, 48)});
                           });
  EXPECT_EQ(bits(sliced.first[0]), bits(sliced.second[0]));
}

TEST_P(prepacked_layers, of_units_are_near) {
  // With a copy, a few rows are multiplied in another order.
  constexpr double bound = 1e-6;
  for (const auto type : {element_type::f32, element_type::bf16}) {
    for (const std::int64_t steps : {1, 2, 6}) {
      const auto batch = between(1, 9);
      const auto inputs = between(1, 40);
      const auto hidden = between(1, 40);
      SCOPED_TRACE(std::string(to_string(type)) + " steps " + std::to_string(steps) + " batch " +
                   std::to_string(batch) + " inputs " + std::to_string(inputs) + " hidden " +
                   std::to_string(hidden));
      const auto x = typed({steps, batch, inputs}, type);
      const auto check = [&](std::int64_t directions, std::int64_t gates, const auto& operation) {
        const auto w = weights({directions, gates * hidden, inputs}, type);
        const auto r = weights({directions, gates * hidden, hidden}, type);
        const auto [constant, given] =
            both(x, {w, r}, [&](program_builder& p, const auto& in, const auto& all) {
              auto op = operation;
              op.x = in;
              op.w = all[0];
              op.r = all[1];
              op.direction = directions == 2 ? recurrent_direction::bidirectional
                                             : recurrent_direction::reverse;
              return p.add("y", op).front();
            });
        const auto allowed = type == element_type::f32 ? bound : 4e-3;
        EXPECT_LE(relative_error(wide(constant[0]), wide(given[0])), allowed);
      };
      check(2, 4, lstm{});
      check(1, 3, gru{});
      check(2, 3, gru{.linear_before_reset = true});
      check(1, 1, rnn{});
    }
  }
}

// W and R want different layouts of the same constant.
TEST_P(prepacked_layers, take_one_constant_as_both_matrices) {
  const std::int64_t numbers_of_state = 19;
  const auto matrix = weights({1, 3 * numbers_of_state, numbers_of_state});
  const auto [constant, given] =
      both(numbers({5, 3, numbers_of_state}), {matrix},
           [](program_builder& p, const auto& x, const auto& all) {
             return p.add("y", gru{.x = x, .w = all[0], .r = all[0]}).front();
           });
  EXPECT_LE(relative_error(values(constant[0]), values(given[0])), 1e-6);
}

TEST_P(prepacked_layers, run_at_once_on_several_lanes) {
  const auto w = weights({32, 16, 3, 3});
  const auto x = numbers({1, 16, 20, 20});
  program_builder p;
  const auto in = p.input("x");
  const auto step = [&](const program_value& value) {
    return p.add("y", conv2d{.x = value,
                             .w = p.constant("w", w).slice(0, 0, 16),
                             .geometry = {.padding = {1, 1}}});
  };
  const program program = std::move(p).build({step(step(in))});
  const auto expected = bits(results_of({program, {x}})[0]);
  std::vector<std::unique_ptr<executor>> lanes;
  for (int i = 0; i < 3; ++i) lanes.push_back(make_executor());
  std::vector<pending<tensors>> answers;
  for (int round = 0; round < 4; ++round) {
    for (auto& lane : lanes) answers.push_back(submit(*lane, sluice::run{program, {x}}));
  }
  for (std::size_t i = 0; i < answers.size(); ++i) {
    EXPECT_EQ(bits(wait(*lanes[i % lanes.size()], answers[i])[0]), expected);
  }
}

INSTANTIATE_TEST_SUITE_P(devices, prepacked_layers, every_device(), parameter_name);

}  // namespace
}  // namespace sluice::test
