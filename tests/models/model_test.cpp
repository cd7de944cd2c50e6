// SPDX-License-Identifier: Apache-2.0
// Nodes whose import is more than a line, and whose meaning depends on the version.
#include "tests/models/model_device_test.hpp"
#include "tests/support/expect_error.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace sluice::test {
namespace {

class models_of_one_node : public model_device_test {
 protected:
  using integers = std::vector<std::int64_t>;
  host_tensor result(onnx_graph& g, const tensor_map& inputs) {
    return run(g.make(), inputs).front();
  }
  static host_tensor counted(const extents& shape) {
    host_tensor x(element_type::f32, shape);
    auto values = x.values<float>();
    std::iota(values.begin(), values.end(), 0.0F);
    return x;
  }
};

TEST_P(models_of_one_node, softmax_is_flat_up_to_version_12) {
  const auto x = random_tensor({2, 3, 4});
  for (const std::int64_t opset : {11, 13}) {
    onnx_graph g(opset);
    g.input("x").output("y").node("Softmax", {"x"}, {"y"}).with("axis", 1);
    const auto values = x.to_vector<float>();
    std::vector<float> expected(values.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      double sum = 0;
      for (std::size_t j = 0; j < values.size(); ++j) {
        const bool same_row = i / 12 == j / 12 && (opset < 13 || i % 4 == j % 4);
        if (same_row) sum += std::exp(values[j]);
      }
      expected[i] = static_cast<float>(std::exp(values[i]) / sum);
    }
    expect_near(result(g, {{"x", x}}), {expected, {2, 3, 4}});
  }
}

// The program has the extents of its inputs in it.
TEST_P(models_of_one_node, run_with_inputs_of_other_shapes_are_refused) {
  onnx_graph g;
  g.input("x").output("y").node("Neg", {"x"}, {"y"});
  EXPECT_EQ(result(g, {{"x", random_tensor({2, 3})}}).shape(), (extents{2, 3}));
  const auto imported = g.make().program_for(specs_of({{"x", random_tensor({2, 3})}}));
  for (const auto& shape : {extents{3, 2}, extents{6}, extents{1, 3}}) {
    EXPECT_TRUE(throws(errc::invalid_argument, "x", [&] {
      (void)run(imported, {{"x", random_tensor(shape)}});
    }));
  }
}

TEST_P(models_of_one_node, question_marks_are_no_symbols) {
  onnx_graph g;
  g.input("x", integers{-2, -2}).output("y").node("Neg", {"x"}, {"y"});
  for (auto& d : *g.graph()
                      .mutable_input(0)
                      ->mutable_type()
                      ->mutable_tensor_type()
                      ->mutable_shape()
                      ->mutable_dim()) {
    d.set_dim_param("?");
  }
  EXPECT_EQ(g.make().inputs()[0].shape->front().symbol, "");
  EXPECT_EQ(result(g, {{"x", random_tensor({2, 3})}}).shape(), (extents{2, 3}));
}

TEST_P(models_of_one_node, squeeze_has_axes_as_attribute_or_input) {
  const auto x = random_tensor({1, 3, 1});
  onnx_graph old(11);
  old.input("x").output("y").node("Squeeze", {"x"}, {"y"}).with("axes", integers{-1});
  EXPECT_EQ(result(old, {{"x", x}}).shape(), (extents{1, 3}));
  onnx_graph recent(13);
  recent.input("x").output("y").constant("axes", integers{0}).node("Squeeze", {"x", "axes"}, {"y"});
  EXPECT_EQ(result(recent, {{"x", x}}).shape(), (extents{3, 1}));
  onnx_graph all(13);
  all.input("x").output("y").node("Squeeze", {"x"}, {"y"});
  EXPECT_EQ(result(all, {{"x", x}}).shape(), (extents{3}));
}

TEST_P(models_of_one_node, slice_is_that_of_python) {
  const auto x = counted({50});
  for (int round = 0; round < 60; ++round) {
    const auto start = between(-60, 60);
    const auto end = between(-60, 60);
    auto step = between(-7, 7);
    if (step == 0) step = std::numeric_limits<std::int64_t>::min() + 1;
    onnx_graph g;
    g.input("x").output("y").constant("starts", integers{start}).constant("ends", integers{end});
    g.constant("axes", integers{0}).constant("steps", integers{step});
    g.node("Slice", {"x", "starts", "ends", "axes", "steps"}, {"y"});
    // As Python's slice.indices has it.
    const std::int64_t low = step > 0 ? 0 : -1;
    const std::int64_t high = step > 0 ? 50 : 49;
    const auto bound = [&](std::int64_t i) {
      return std::clamp(i < 0 ? i + 50 : i, low, high);
    };
    std::vector<float> expected;
    for (auto i = bound(start); step > 0 ? i < bound(end) : i > bound(end); i += step) {
      expected.push_back(static_cast<float>(i));
    }
    SCOPED_TRACE(testing::Message() << start << ":" << end << ":" << step);
    EXPECT_EQ(result(g, {{"x", x}}).to_vector<float>(), expected);
  }
}

TEST_P(models_of_one_node, attention_has_the_causal_mask_of_the_operation) {
  onnx_graph g(23);
  g.input("q").input("k").input("v").output("y");
  g.node("Attention", {"q", "k", "v"}, {"y"}).with("is_causal", 1);
  const auto n = between(1, 9);
  const auto m = between(1, 9);
  const tensor_map inputs{{"q", random_tensor({1, 1, n, 4})},
                          {"k", random_tensor({1, 1, m, 4})},
                          {"v", random_tensor({1, 1, m, 3})}};
  const auto network = g.make();
  EXPECT_EQ(network.program_for(specs_of(inputs)).program.steps(), 1U);
  const auto q = inputs.at("q").to_vector<float>();
  const auto k = inputs.at("k").to_vector<float>();
  const auto v = inputs.at("v").to_vector<float>();
  std::vector<float> expected;
  for (std::size_t i = 0; i < static_cast<std::size_t>(n); ++i) {
    std::vector<double> sums(3);
    double weights = 0;
    for (std::size_t j = 0; j < static_cast<std::size_t>(m) && j <= i; ++j) {
      double score = 0;
      for (std::size_t d = 0; d < 4; ++d) score += double{q[i * 4 + d]} * double{k[j * 4 + d]};
      const auto weight = std::exp(score / 2);
      weights += weight;
      for (std::size_t d = 0; d < 3; ++d) sums[d] += weight * double{v[j * 3 + d]};
    }
    for (const auto sum : sums) expected.push_back(static_cast<float>(sum / weights));
  }
  expect_near(result(g, inputs), {expected, {1, 1, n, 3}});
}

TEST_P(models_of_one_node, integer_products_have_zero_points) {
  const auto m = between(1, 6);
  const auto k = between(1, 40);
  const auto n = between(1, 6);
  const auto bytes = [&](std::int64_t count) {
    std::vector<std::uint8_t> values(static_cast<std::size_t>(count));
    for (auto& value : values) value = static_cast<std::uint8_t>(between(0, 255));
    return values;
  };
  const auto a = bytes(m * k);
  const auto b = bytes(k * n);
  const auto p = bytes(m);
  const auto q = bytes(n);
  onnx_graph g;
  for (const auto* name : {"a", "b", "p", "q"}) g.input(name, onnx::TensorProto::UINT8);
  g.output("y").node("MatMulInteger", {"a", "b", "p", "q"}, {"y"});
  const auto y = result(g, {{"a", {a, {m, k}}}, {"b", {b, {k, n}}}, {"p", p}, {"q", q}});
  std::vector<std::int32_t> expected;
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      std::int32_t sum = 0;
      for (std::int64_t l = 0; l < k; ++l) {
        sum += (a[static_cast<std::size_t>(i * k + l)] - p[static_cast<std::size_t>(i)]) *
               (b[static_cast<std::size_t>(l * n + j)] - q[static_cast<std::size_t>(j)]);
      }
      expected.push_back(sum);
    }
  }
  EXPECT_EQ(y.to_vector<std::int32_t>(), expected);
}

TEST_P(models_of_one_node, integer_convolutions_have_groups_and_zero_points) {
  const std::int64_t groups = between(1, 3);
  const auto channels = between(1, 3);  // of a group
  const auto count = between(1, 3);     // filters of a group
  const auto h = between(3, 8);
  const auto w = between(3, 8);
  const auto bytes = [&](std::int64_t size, std::int64_t least, std::int64_t most) {
    std::vector<std::int64_t> values(static_cast<std::size_t>(size));
    for (auto& value : values) value = between(least, most);
    return values;
  };
  const auto x = bytes(groups * channels * h * w, 0, 255);
  const auto f = bytes(groups * count * channels * 6, -128, 127);
  const auto p = between(0, 255);
  const auto q = between(-128, 127);
  onnx_graph g;
  g.input("x", onnx::TensorProto::UINT8).input("p", onnx::TensorProto::UINT8);
  g.input("f", onnx::TensorProto::INT8).input("q", onnx::TensorProto::INT8).output("y");
  g.node("ConvInteger", {"x", "f", "p", "q"}, {"y"})
      .with("group", groups)
      .with("pads", integers{1, 0, 2, 1})
      .with("strides", integers{1, 2});
  const auto y = result(
      g, {{"x", {std::vector<std::uint8_t>(x.begin(), x.end()), {1, groups * channels, h, w}}},
          {"f", {std::vector<std::int8_t>(f.begin(), f.end()), {groups * count, channels, 2, 3}}},
          {"p", {std::vector{static_cast<std::uint8_t>(p)}, {}}},
          {"q", {std::vector{static_cast<std::int8_t>(q)}, {}}}});
  const auto rows = h + 3 - 2 + 1;
  const auto columns = (w + 1 - 3) / 2 + 1;
  std::vector<std::int32_t> expected;
  for (std::int64_t k = 0; k < groups * count; ++k) {
    for (std::int64_t i = 0; i < rows; ++i) {
      for (std::int64_t j = 0; j < columns; ++j) {
        std::int64_t sum = 0;
        for (std::int64_t t = 0; t < channels * 6; ++t) {
          const auto c = k / count * channels + t / 6;
          const auto r = i - 1 + t % 6 / 3;
          const auto s = j * 2 + t % 3;
          if (r < 0 || r >= h || s >= w) continue;
          sum += (x[static_cast<std::size_t>((c * h + r) * w + s)] - p) *
                 (f[static_cast<std::size_t>(k * channels * 6 + t)] - q);
        }
        expected.push_back(static_cast<std::int32_t>(sum));
      }
    }
  }
  ASSERT_EQ(y.shape(), (extents{1, groups * count, rows, columns}));
  EXPECT_EQ(y.to_vector<std::int32_t>(), expected);
}

TEST_P(models_of_one_node, numbers_of_8_bits_are_quantized_and_converted) {
  onnx_graph g(20);
  g.input("x").output("y").output("restored").output("unsaturated").output("is_nan");
  auto& zero = *g.graph().add_initializer();  // in int32_data, a number for each byte
  zero.set_name("zero");
  zero.set_data_type(17);     // FLOAT8E4M3FN
  zero.add_int32_data(0x38);  // 1
  g.constant("scale", std::vector<float>{2}, {});
  g.node("QuantizeLinear", {"x", "scale", "zero"}, {"y"});
  g.node("DequantizeLinear", {"y", "scale", "zero"}, {"restored"});
  g.node("Cast", {"x"}, {"unsaturated"})
      .with("to", 19)  // FLOAT8E5M2
      .with("saturate", 0);
  g.node("IsNaN", {"y"}, {"is_nan"});
  constexpr auto infinity = std::numeric_limits<float>::infinity();
  const auto nan = std::numeric_limits<float>::quiet_NaN();
  const host_tensor x(std::vector<float>{0, 3, -0.1F, 5000, 1e6F, -infinity, nan}, {7});
  const auto results = run(g.make(), {{"x", x}});
  ASSERT_EQ(results[0].type(), element_type::e4m3);
  ASSERT_EQ(results[2].type(), element_type::e5m2);
  const auto numbers = results[0].to(element_type::f32).to_vector<float>();
  const std::vector<float> expected{1, 2.5F, 0.9375F, 448, 448, -448};
  EXPECT_EQ(std::vector<float>(numbers.begin(), numbers.end() - 1), expected);
  const auto restored = results[1].to_vector<float>();
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(restored[i], (expected[i] - 1) * 2);
  }
  const auto unsaturated = results[2].to(element_type::f32).to_vector<float>();
  EXPECT_EQ(std::vector<float>(unsaturated.begin(), unsaturated.end() - 1),
            (std::vector<float>{0, 3, -0.09375F, 5120, infinity, -infinity}));
  EXPECT_TRUE(std::isnan(unsaturated.back()));
  const std::vector<bool> nans{false, false, false, false, false, false, true};
  EXPECT_EQ(results[3].to_vector<bool>(), nans);
}

TEST_P(models_of_one_node, concatenations_have_any_number_of_inputs) {
  onnx_graph g;
  g.input("x").output("y");
  g.node("Concat", {}, {"y"}).with("axis", -1);
  for (int i = 0; i < 200; ++i) g.graph().mutable_node(0)->add_input("x");
  const auto y = result(g, {{"x", counted({2, 1})}});
  ASSERT_EQ(y.shape(), (extents{2, 200}));
  std::vector<float> expected(400);
  std::fill(expected.begin() + 200, expected.end(), 1.0F);
  EXPECT_EQ(y.to_vector<float>(), expected);
}

TEST_P(models_of_one_node, reductions_of_nothing_have_values) {
  onnx_graph g;
  g.input("x").output("y").node("ReduceMax", {"x"}, {"y"}).with("axes", integers{1});
  const auto y = result(g, {{"x", host_tensor(element_type::f32, {2, 0})}});
  EXPECT_EQ(y.shape(), (extents{2, 1}));
  for (const auto value : y.to_vector<float>()) EXPECT_EQ(value, -HUGE_VALF);
}

INSTANTIATE_TEST_SUITE_P(devices, models_of_one_node, every_device(), parameter_name);

}  // namespace
}  // namespace sluice::test
