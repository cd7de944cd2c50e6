// SPDX-License-Identifier: Apache-2.0
// The constants of a model, which its programs share in host memory and on a device.
#include "operations/program/program_graph.hpp"
#include "tests/models/onnx_graph.hpp"
#include "tests/models/tensor_difference.hpp"
#include "tests/operations/program/programs.hpp"
#include "tests/support/gate.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

constexpr std::int64_t conv_channels = 64;
constexpr std::int64_t product_columns = 512;
constexpr std::size_t bytes_of_filters = conv_channels * conv_channels * 9 * sizeof(float);

/// Programs of a network with a convolution, a batch normalisation and a product.
class model_constants : public programs {
 protected:
  std::vector<float> random_vector(std::size_t count) {
    return random_values<float>(generator_, count);
  }
  void add_raw(onnx_graph& g, const char* name, const std::vector<float>& values,
               const std::vector<std::int64_t>& shape) {
    auto& tensor = *g.graph().add_initializer();
    tensor.set_name(name);
    tensor.set_data_type(onnx::TensorProto::FLOAT);
    for (const auto extent : shape) tensor.add_dims(extent);
    tensor.set_raw_data(values.data(), values.size() * sizeof(float));
  }
  model network() {
    onnx_graph g;
    g.input("x", {-1, conv_channels, -2, -2}).output("y");
    add_raw(g, "w", random_vector(conv_channels * conv_channels * 9),
            {conv_channels, conv_channels, 3, 3});
    auto variance = random_vector(conv_channels);
    for (auto& number : variance) number = number * number + 0.5F;
    for (const auto* name : {"scale", "bias", "mean"}) {
      g.constant(name, random_vector(conv_channels), {conv_channels});
    }
    g.constant("variance", variance, {conv_channels});
    add_raw(g, "m", random_vector(conv_channels * product_columns),
            {conv_channels, product_columns});
    g.node("Conv", {"x", "w"}, {"c"}).with("pads", std::vector<std::int64_t>{1, 1, 1, 1});
    g.node("BatchNormalization", {"c", "scale", "bias", "mean", "variance"}, {"n"});
    g.node("GlobalAveragePool", {"n"}, {"p"});
    g.node("Flatten", {"p"}, {"f"});
    g.node("MatMul", {"f", "m"}, {"y"});
    return g.make();
  }
  static extents shape_of(std::int64_t side) { return {1, conv_channels, side, side}; }
  static program program_of(const model& what, std::int64_t side, const model_options& options) {
    return what
        .program_for({{"x", tensor_spec::row_major(element_type::f32, shape_of(side))}}, {},
                     options)
        .program;
  }
  host_tensor image(std::int64_t side) {
    return {random_vector(static_cast<std::size_t>(conv_channels * side * side)), shape_of(side)};
  }
  host_tensor result_of(const program& what, const host_tensor& x) {
    return get(results_of({what, {x}})[0]);
  }
  /// The memory of the large constants of a program.
  static std::set<const void*> large_constants(const program& what) {
    std::set<const void*> memory;
    for (const auto& constant : what.graph()->constants()) {
      if (constant.on_host.bytes() >= operations::shared_constant::min_bytes) {
        memory.insert(constant.on_host.data().get());
      }
    }
    return memory;
  }
  [[nodiscard]] std::size_t outstanding() {
    runtime().reap_pending();
    return runtime().statistics().bytes_outstanding;
  }

 private:
  std::mt19937_64 generator_ = make_generator();
};

TEST_P(model_constants, are_shared_by_programs_for_other_shapes) {
  for (const auto precision : {model_precision::original, model_precision::f16}) {
    for (const bool optimizes : {true, false}) {
      const model_options options{.precision = precision, .optimize = optimizes};
      auto what = std::make_unique<model>(network());
      const model copy = *what;  // the same file
      const auto first = program_of(*what, 5, options);
      const auto second = program_of(*what, 8, options);
      ASSERT_EQ(large_constants(first).size(), 2U);
      EXPECT_EQ(large_constants(first), large_constants(second));
      const auto x5 = image(5);
      const auto x8 = image(8);
      const auto y5 = result_of(first, x5);
      const auto with_one = outstanding();
      const auto y8 = result_of(second, x8);
      // What grows are activations, the small constants and what a library packs anew.
      EXPECT_LT(outstanding(), with_one + bytes_of_filters / 2);
      // The order of ends does not matter.
      what.reset();
      EXPECT_EQ(difference(result_of(first, x5), y5, {}), "");
      const auto third = program_of(copy, 8, options);
      EXPECT_EQ(large_constants(third), large_constants(second));
      EXPECT_EQ(difference(result_of(third, x8), y8, {}), "");
    }
  }
}

TEST_P(model_constants, of_other_models_and_precisions_are_their_own) {
  const auto one = network();
  const auto other = network();
  const auto original = program_of(one, 4, {});
  const auto narrow = program_of(one, 4, {.precision = model_precision::f16});
  const auto others = program_of(other, 4, {});
  for (const auto* memory : large_constants(original)) {
    EXPECT_FALSE(large_constants(narrow).contains(memory));
    EXPECT_FALSE(large_constants(others).contains(memory));
  }
}

TEST_P(model_constants, that_are_computed_end_with_the_last_program) {
  const auto what = network();
  const auto options = model_options{.precision = model_precision::f16};
  std::vector<std::uint32_t> expected;
  const auto x = image(6);
  for (int round = 0; round < 3; ++round) {
    auto made = program_of(what, 6, options);
    std::vector<std::weak_ptr<const void>> memory;
    for (const auto& constant : made.graph()->constants()) {
      if (large_constants(made).contains(constant.on_host.data().get())) {
        memory.emplace_back(constant.on_host.data());
      }
    }
    EXPECT_EQ(memory.size(), 2U);
    auto lane = make_executor();
    const auto y = bits(sluice::test::executor_test::run(*lane, sluice::run{made, {x}})[0]);
    if (round == 0) expected = y;
    EXPECT_EQ(y, expected);
    // Executables on a host device use the memory itself.
    made = program();
    lane.reset();
    await([&] {
      runtime().reap_pending();
      (void)program_of(what, 6, {});  // the next program
      return std::all_of(memory.begin(), memory.end(),
                         [](const auto& other) { return other.expired(); });
    });
  }
}

TEST_P(model_constants, are_shared_by_imports_of_several_threads) {
  const auto what = network();
  constexpr std::size_t threads = 4;
  std::vector<program> all(threads);
  std::vector<std::thread> running;
  for (std::size_t i = 0; i < threads; ++i) {
    running.emplace_back([&, i] {
      all[i] =
          program_of(what, static_cast<std::int64_t>(4 + i), {.precision = model_precision::f16});
    });
  }
  for (auto& thread : running) thread.join();
  for (const auto& each : all) EXPECT_EQ(large_constants(each), large_constants(all.front()));
}

INSTANTIATE_TEST_SUITE_P(devices, model_constants, every_device(), parameter_name);

}  // namespace
}  // namespace sluice::test
