// SPDX-License-Identifier: Apache-2.0
// Small networks against references in double precision.
#include "tests/models/model_device_test.hpp"

#include <cmath>

namespace sluice::test {
namespace {

using numbers = std::vector<double>;

class networks : public model_device_test {
 protected:
  /// Random numbers, as a constant of the model and for the reference.
  numbers parameter(onnx_graph& g, const char* name, const std::vector<std::int64_t>& shape) {
    const auto x = random_tensor(extents(shape));
    const auto values = x.to_vector<float>();
    g.constant(name, values, shape);
    return {values.begin(), values.end()};
  }
  static numbers as_numbers(const host_tensor& x) {
    const auto values = x.to_vector<float>();
    return {values.begin(), values.end()};
  }
  static host_tensor as_tensor(const numbers& values, const extents& shape) {
    return {std::vector<float>(values.begin(), values.end()), shape};
  }
};

/// A convolution of `channels` planes of height h and width w to as many, with 3 × 3 filters.
numbers convolve(const numbers& x, const numbers& filters, const numbers& bias, std::int64_t images,
                 std::int64_t channels, std::int64_t h, std::int64_t w) {
  numbers y;
  const auto at = [&](std::int64_t n, std::int64_t c, std::int64_t i, std::int64_t j) {
    if (i < 0 || j < 0 || i >= h || j >= w) return 0.0;
    return x[static_cast<std::size_t>(((n * channels + c) * h + i) * w + j)];
  };
  for (std::int64_t n = 0; n < images; ++n) {
    for (std::int64_t k = 0; k < channels; ++k) {
      for (std::int64_t i = 0; i < h; ++i) {
        for (std::int64_t j = 0; j < w; ++j) {
          double sum = bias[static_cast<std::size_t>(k)];
          for (std::int64_t c = 0; c < channels; ++c) {
            for (std::int64_t r = 0; r < 9; ++r) {
              sum += at(n, c, i + r / 3 - 1, j + r % 3 - 1) *
                     filters[static_cast<std::size_t>((k * channels + c) * 9 + r)];
            }
          }
          y.push_back(sum);
        }
      }
    }
  }
  return y;
}

TEST_P(networks, with_a_residual_are_right_for_every_shape) {
  const std::int64_t channels = 4;
  onnx_graph g;
  g.input("x", {-1, channels, -2, -2}).output("y").number("zero", 0);
  const auto filters = parameter(g, "filters", {channels, channels, 3, 3});
  const auto bias = parameter(g, "bias", {channels});
  const auto weights = parameter(g, "weights", {5, channels});
  const auto offset = parameter(g, "offset", {5});
  g.node("Conv", {"x", "filters", "bias"}, {"a"}).with("auto_pad", "SAME_UPPER");
  g.node("Add", {"a", "x"}, {"b"});
  g.node("Relu", {"b"}, {"c"});
  g.node("GlobalAveragePool", {"c"}, {"d"});
  g.node("Flatten", {"d"}, {"e"});
  g.node("Gemm", {"e", "weights", "offset"}, {"y"}).with("transB", 1);
  const auto network = g.make();
  for (int round = 0; round < 3; ++round) {
    const auto images = between(1, 3);
    const auto h = between(1, 9);
    const auto w = between(1, 9);
    const auto x = random_tensor({images, channels, h, w});
    auto hidden = convolve(as_numbers(x), filters, bias, images, channels, h, w);
    const auto input = as_numbers(x);
    numbers expected;
    for (std::size_t i = 0; i < hidden.size(); ++i) hidden[i] = std::max(hidden[i] + input[i], 0.0);
    for (std::int64_t n = 0; n < images; ++n) {
      for (std::size_t k = 0; k < 5; ++k) {
        double sum = offset[k];
        for (std::int64_t c = 0; c < channels; ++c) {
          double mean = 0;
          for (std::int64_t p = 0; p < h * w; ++p) {
            mean += hidden[static_cast<std::size_t>((n * channels + c) * h * w + p)];
          }
          sum += mean / static_cast<double>(h * w) *
                 weights[k * static_cast<std::size_t>(channels) + static_cast<std::size_t>(c)];
        }
        expected.push_back(sum);
      }
    }
    expect_near(run(network, {{"x", x}}).front(), as_tensor(expected, {images, 5}), 1e-4);
  }
}

// Results of a transposed input lie channels-last, and every operator takes them.
TEST_P(networks, of_transposed_images_are_reshaped_and_have_row_major_outputs) {
  const std::int64_t channels = 4;
  onnx_graph g;
  g.input("x", {-1, -2, -2, channels}).output("features").output("flat").output("rows");
  const auto filters = parameter(g, "filters", {channels, channels, 3, 3});
  const auto bias = parameter(g, "bias", {channels});
  g.constant("half", {0.5F}, {}).constant("pixels", std::vector<std::int64_t>{0, -1, channels});
  const std::vector<std::int64_t> channels_first{0, 3, 1, 2};
  g.node("Transpose", {"x"}, {"images"}).with("perm", channels_first);
  g.node("Mul", {"images", "half"}, {"scaled"});
  g.node("Conv", {"scaled", "filters", "bias"}, {"a"}).with("auto_pad", "SAME_UPPER");
  g.node("Relu", {"a"}, {"features"});
  g.node("Flatten", {"features"}, {"flat"});
  g.node("Sigmoid", {"features"}, {"s"});
  g.node("Reshape", {"s", "pixels"}, {"rows"});
  const auto network = g.make();
  for (int round = 0; round < 3; ++round) {
    const auto images = between(1, 3);
    const auto h = between(1, 9);
    const auto w = between(2, 9);
    const auto x = random_tensor({images, h, w, channels});
    const auto input = as_numbers(x);
    numbers scaled;
    for (std::int64_t n = 0; n < images; ++n) {
      for (std::int64_t c = 0; c < channels; ++c) {
        for (std::int64_t p = 0; p < h * w; ++p) {
          scaled.push_back(input[static_cast<std::size_t>((n * h * w + p) * channels + c)] / 2);
        }
      }
    }
    auto features = convolve(scaled, filters, bias, images, channels, h, w);
    for (auto& element : features) element = std::max(element, 0.0);
    auto rows = features;
    for (auto& element : rows) element = 1 / (1 + std::exp(-element));
    const auto found = run(network, {{"x", x}});
    expect_near(found[0], as_tensor(features, {images, channels, h, w}), 1e-4);
    expect_near(found[1], as_tensor(features, {images, channels * h * w}), 1e-4);
    expect_near(found[2], as_tensor(rows, {images, h * w, channels}), 1e-4);
    const auto made = network.program_for(specs_of({{"x", x}}));
    for (const auto& result : made.results) EXPECT_TRUE(result.is_contiguous());
  }
}

TEST_P(networks, with_attention_of_steps_are_that_of_the_operator) {
  // MatMul, Div, Softmax and MatMul against Attention, with grouped heads and a mask.
  const auto q = random_tensor({2, 4, 5, 8});
  const auto k = random_tensor({2, 4, 7, 8});
  const auto v = random_tensor({2, 4, 7, 6});
  onnx_graph steps;
  steps.input("q").input("k").input("v").output("y").constant("root", {std::sqrt(8.0F)}, {});
  steps.node("Transpose", {"k"}, {"kt"}).with("perm", std::vector<std::int64_t>{0, 1, 3, 2});
  steps.node("MatMul", {"q", "kt"}, {"products"});
  steps.node("Div", {"products", "root"}, {"scores"});
  steps.node("Softmax", {"scores"}, {"weights"}).with("axis", -1);
  steps.node("MatMul", {"weights", "v"}, {"y"});
  onnx_graph whole(23);
  whole.input("q").input("k").input("v").output("y");
  whole.node("Attention", {"q", "k", "v"}, {"y"});
  const tensor_map inputs{{"q", q}, {"k", k}, {"v", v}};
  expect_near(run(whole.make(), inputs).front(), run(steps.make(), inputs).front(), 1e-5);
}

TEST_P(networks, have_ten_thousand_nodes) {
  onnx_graph g;
  g.input("x").output("y").constant("one", {1}, {});
  const int count = 10000;
  std::string last = "x";
  for (int i = 0; i < count; ++i) {
    const auto name = i + 1 == count ? std::string("y") : "n" + std::to_string(i);
    g.node("Add", {last.c_str(), "one"}, {name.c_str()});
    last = name;
  }
  const auto results = run(g.make(), {{"x", host_tensor(std::vector<float>{0.5F})}});
  EXPECT_EQ(results.front().to_vector<float>(), std::vector<float>{count + 0.5F});
}

INSTANTIATE_TEST_SUITE_P(devices, networks, every_device(), parameter_name);

}  // namespace
}  // namespace sluice::test
