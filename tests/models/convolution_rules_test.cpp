// SPDX-License-Identifier: Apache-2.0
// Factors and summands of channels that become a part of the filters and the bias.
#include "tests/models/optimization_test.hpp"

#include <algorithm>
#include <iterator>

namespace sluice::test {
namespace {

class convolution_rules : public optimization_test {
 protected:
  tensor_map random_images() { return {{"x", random_tensor({batch_, 4, size_, size_})}}; }
  /// Parameters of a batch norm with `channels_` channels, and filters with `taps` taps.
  tensor_map random_constants(std::int64_t groups = 1) {
    auto variance = random_tensor({channels_});
    for (auto& v : variance.values<float>()) v = 0.5F + v * v;
    return {{"w", random_tensor({channels_, 4 / groups, 3, 3})},
            {"bias", random_tensor({channels_})},
            {"g", random_tensor({channels_})},
            {"b", random_tensor({channels_})},
            {"m", random_tensor({channels_})},
            {"v", variance}};
  }
  void expect(std::string_view nodes, const std::string& rules, tensor_map inputs,
              tensor_map constants, std::vector<std::string> outputs = {"y"}) {
    expect_rules({.nodes = nodes,
                  .inputs = std::move(inputs),
                  .constants = std::move(constants),
                  .outputs = std::move(outputs),
                  .types = {element_type::f16, element_type::bf16, element_type::f32},
                  .reference = element_type::f32},
                 rules);
  }
  void expect(std::string_view nodes, const std::string& rules,
              std::vector<std::string> outputs = {"y"}) {
    expect(nodes, rules, random_images(), random_constants(), std::move(outputs));
  }

  /// The operations of the steps that depend on inputs, without casts.
  static std::string operations_of(const model& network, const tensor_map& inputs) {
    std::string operations;
    for (const auto& step : network.steps_for(input_specs(inputs)).steps) {
      if (step.operation != "cast" && !step.inputs.empty()) operations += step.operation + ' ';
    }
    return operations;
  }

  std::int64_t batch_ = between(1, 3);
  std::int64_t size_ = between(4, 8);
  std::int64_t channels_ = 2 * between(1, 4);
};

TEST_P(convolution_rules, fold_a_batch_norm) {
  expect("c = Conv x w\ny = BatchNormalization c g b m v", "batch_norm");
  expect("c = Conv x w bias pads=[1,1,1,1]\nn = BatchNormalization c g b m v\ny = Relu n",
         "batch_norm");
  expect("c = Conv x w bias group=2\ny = BatchNormalization c g b m v epsilon=0.01", "batch_norm",
         random_images(), random_constants(2));
}

TEST_P(convolution_rules, fold_a_batch_norm_after_a_transposed_convolution) {
  for (const auto groups : {1, 2}) {
    auto constants = random_constants();
    constants.at("w") = random_tensor({4, channels_ / groups, 3, 2});
    expect("c = ConvTranspose x w bias strides=[2,1] group=" + std::to_string(groups) +
               "\ny = BatchNormalization c g b m v",
           "batch_norm", random_images(), constants);
  }
}

// Filters that are copied to lie as the images do.
TEST_P(convolution_rules, fold_into_filters_of_images_that_lie_channels_last) {
  const tensor_map inputs{{"x", random_tensor({batch_, size_, size_, 4})}};
  const auto rest = "\nn = BatchNormalization c g b m v\ny = Relu n";
  const auto transpose = std::string("t = Transpose x perm=[0,3,1,2]\n");
  expect(transpose + "c = Conv t w bias" + rest, "batch_norm", inputs, random_constants());
  expect(transpose + "c = Conv t w group=2" + rest, "batch_norm", inputs, random_constants(2));
  auto constants = random_constants();
  constants.at("w") = random_tensor({4, channels_, 3, 2});
  expect(transpose + "c = ConvTranspose t w" + rest, "batch_norm", inputs, constants);
}

// Against sums in f64, and the parameters of a model of 16 bits in f32.
TEST_P(convolution_rules, fold_as_sums_in_f64_say) {
  const auto x = random_tensor({1, 4, 3, 3});
  const auto constants = random_constants();
  onnx_graph g;
  g.input("x").output("y");
  for (const auto& [name, c] : constants) {
    g.constant(name.c_str(), c.to_vector<float>(), {c.shape().begin(), c.shape().end()});
  }
  g.node("Conv", {"x", "w", "bias"}, {"c"});
  g.node("BatchNormalization", {"c", "g", "b", "m", "v"}, {"y"});
  const auto made = g.make().program_for(specs_of({{"x", x}}));
  EXPECT_EQ(rules_of(made), "batch_norm");
  EXPECT_EQ(made.program.steps(), 1U);
  EXPECT_EQ(made.optimizations.front().node, "y");
  const auto y = run(made, {{"x", x}}).front();
  const auto number = [](const host_tensor& t, std::size_t i) {
    return static_cast<double>(t.values<float>()[i]);
  };
  for (std::size_t k = 0; k < static_cast<std::size_t>(channels_); ++k) {
    double sum = number(constants.at("bias"), k);
    for (std::size_t i = 0; i < 36; ++i)
      sum += number(x, i) * number(constants.at("w"), 36 * k + i);
    const auto expected = (sum - number(constants.at("m"), k)) /
                              std::sqrt(number(constants.at("v"), k) + 1e-5) *
                              number(constants.at("g"), k) +
                          number(constants.at("b"), k);
    EXPECT_NEAR(number(y, k), expected, 1e-5 * (1 + std::abs(expected)));
  }
}

TEST_P(convolution_rules, leave_a_batch_norm_alone) {
  // Another reader, unknown filters, no convolution, and an activation in between.
  expect("c = Conv x w\ny = BatchNormalization c g b m v", "", {"y", "c"});
  expect("c = Conv x w\nr = Relu c\ny = BatchNormalization r g b m v", "");
  auto constants = random_constants();
  auto inputs = random_images();
  inputs.insert(constants.extract("w"));
  expect("c = Conv x w\ny = BatchNormalization c g b m v", "", inputs, constants);
  constants = random_constants();
  inputs = random_images();
  inputs.insert(constants.extract("m"));
  expect("c = Conv x w\ny = BatchNormalization c g b m v", "", inputs, constants);
  constants = random_constants();
  constants.at("v").values<float>()[0] = -1;
  expect("c = Conv x w\ny = BatchNormalization c g b m v", "", random_images(), constants);
}

TEST_P(convolution_rules, fold_factors_and_summands) {
  auto constants = random_constants();
  constants.emplace("f", random_tensor({1, channels_, 1, 1}));
  constants.emplace("s", random_tensor({channels_, 1, 1}));
  const auto test = [&](std::string_view nodes, const std::string& rules) {
    expect(nodes, rules, random_images(), constants);
  };
  test("c = Conv x w\nh = Mul c f\ny = Add s h", "channel_factor channel_summand");
  test("c = Conv x w bias\ny = Sub c s", "channel_summand");
  test("c = Conv x w bias\nh = Mul c 0.5\ny = Add h 2", "channel_factor channel_summand");
  test("c = Conv x w bias\nh = Mul f c\ny = BatchNormalization h g b m v", "channel_factor");
  // From another side, and for other dimensions.
  test("c = Conv x w bias\ny = Sub s c", "");
  constants.at("s") = random_tensor({1, size_ - 2});
  test("c = Conv x w bias\ny = Add c s", "");
  constants.at("s") = random_tensor({2, channels_, 1, 1});
  expect("c = Conv x w bias\ny = Mul c s", "", {{"x", random_tensor({1, 4, 4, 4})}}, constants);
}

// The product of both numbers is not one of the type, but the result is.
TEST_P(convolution_rules, keep_numbers_within_their_type) {
  const auto filled = [](float value, const extents& shape) {
    host_tensor x(element_type::f32, shape);
    std::fill(x.values<float>().begin(), x.values<float>().end(), value);
    return x;
  };
  const auto expect_unchanged = [&](const char* nodes, float w, float bias) {
    expect_rules(
        {.nodes = nodes,
         .inputs = random_images(),
         .constants = {{"w", filled(w, {channels_, 4, 3, 3})}, {"bias", filled(bias, {channels_})}},
         .types = {element_type::f16}},
        "");
  };
  expect_unchanged("c = Conv x w bias\ny = Mul c 100", 1000, 1);
  expect_unchanged("c = Conv x w bias\ny = Mul c 0.00001", 0.001F, 1);
  expect_unchanged("c = Conv x w bias\ny = Add c 60000", 1, 60000);
}

// TensorFlow stores images channels-last, and transposes them for each convolution. The transposed
// images are views, and each result lies as the images do.
TEST_P(convolution_rules, need_no_copies_of_transposed_images) {
  const auto nodes = parse_nodes(R"(t = Transpose x perm=[0,3,1,2]
                                    c = Conv t w pads=[1,1,1,1]
                                    u = Transpose c perm=[0,2,3,1]
                                    r = Relu u
                                    z = Transpose r perm=[0,3,1,2]
                                    d = Conv z v pads=[1,1,1,1]
                                    o = Transpose d perm=[0,2,3,1]
                                    y = Relu o)");
  const tensor_map inputs{{"x", random_tensor({batch_, size_, size_, 4})}};
  const tensor_map constants{{"w", random_tensor({channels_, 4, 3, 3})},
                             {"v", random_tensor({4, channels_, 3, 3})}};
  for (const auto type : {element_type::f16, element_type::f32}) {
    const auto network = model_of(nodes, inputs, constants, type, type, {"y"});
    EXPECT_EQ(operations_of(network, inputs), "convolution relu convolution relu ");
  }
}

// Only the first of the images is copied.
TEST_P(convolution_rules, let_images_of_16_bits_lie_channels_last) {
  const auto nodes = parse_nodes(R"(c = Conv x w pads=[1,1,1,1]
                                    r = Relu c
                                    d = Conv r v pads=[1,1,1,1]
                                    y = Transpose d perm=[0,2,3,1])");
  const auto inputs = random_images();
  const tensor_map constants{{"w", random_tensor({channels_, 4, 3, 3})},
                             {"v", random_tensor({4, channels_, 3, 3})}};
  for (const auto type : {element_type::f16, element_type::bf16, element_type::f32}) {
    const bool is_short = type != element_type::f32;
    const auto network = model_of(nodes, inputs, constants, type, type, {"y"});
    const auto made = network.program_for(input_specs(inputs));
    EXPECT_EQ(rules_of(made), is_short ? "channels_last" : "");
    EXPECT_EQ(operations_of(network, inputs),
              is_short ? "strided_copy convolution relu convolution strided_copy "
                       : "convolution relu convolution strided_copy ");
    const auto unchanged = network.program_for(input_specs(inputs), {}, {.optimize = false});
    EXPECT_EQ(rules_of(unchanged), "");
    const auto reference = model_of(nodes, inputs, constants, type, element_type::f32, {"y"})
                               .program_for(input_specs(inputs), {}, {.optimize = false});
    EXPECT_LE(distance(results_of(made, inputs).front(), results_of(reference, inputs).front()),
              bound_of(type));
  }
}

INSTANTIATE_TEST_SUITE_P(devices, convolution_rules, every_device(), parameter_name);

}  // namespace
}  // namespace sluice::test
