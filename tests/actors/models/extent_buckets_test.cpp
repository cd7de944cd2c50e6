// SPDX-License-Identifier: Apache-2.0
// Requests of many lengths that share programs: their results beside those of their own shapes.
#include "operations/models/extent_rounding.hpp"
#include "tests/actors/models/scripted_source.hpp"
#include "tests/actors/session_test.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/seed.hpp"

#include <sluice/actors/models.hpp>
#include <sluice/operations/elementwise.hpp>
#include <sluice/operations/pool.hpp>
#include <sluice/operations/program_source.hpp>
#include <sluice/operations/reduce.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

using sluice::detail::extent_rounding;

const std::vector<model_value> two_inputs{
    {.name = "tokens",
     .type = element_type::f32,
     .shape = std::vector<model_dimension>{{.symbol = "batch"}, {.symbol = "length"}}},
    {.name = "mask",
     .type = element_type::f32,
     .shape = std::vector<model_dimension>{{.symbol = "length"}, {.extent = 3}}}};

run_input input_of(const extents& shape) {
  return host_tensor(element_type::f32, shape);
}

TEST(extent_rounding, takes_the_next_bucket) {
  const extent_rounding stated({{.symbol = "length", .extents = {4, 7, 20}}}, two_inputs);
  const extent_rounding powers({{.symbol = "length"}}, two_inputs);
  const auto length = [](const extent_rounding& rounding, std::int64_t extent) {
    const auto shapes = rounding.round({input_of({2, extent}), input_of({extent, 3})});
    if (shapes.empty()) return std::int64_t{0};
    EXPECT_EQ(shapes[0], (extents{2, shapes[1][0]}));
    EXPECT_EQ(shapes[1], (extents{shapes[0][1], 3}));
    return shapes[0][1];
  };
  const std::map<std::int64_t, std::int64_t> expected_of_stated{{0, 0}, {1, 4},  {4, 4},   {5, 7},
                                                                {7, 7}, {8, 20}, {20, 20}, {21, 0}};
  for (const auto& [extent, expected] : expected_of_stated) {
    EXPECT_EQ(length(stated, extent), expected) << extent;
  }
  const std::map<std::int64_t, std::int64_t> expected_of_powers{
      {0, 0}, {1, 1},  {2, 2},   {3, 3},   {4, 4},       {5, 6},      {6, 6},
      {7, 8}, {9, 12}, {13, 16}, {17, 24}, {1025, 1536}, {1537, 2048}};
  for (const auto& [extent, expected] : expected_of_powers) {
    EXPECT_EQ(length(powers, extent), expected) << extent;
  }
}

TEST(extent_rounding, names_an_axis_of_an_input) {
  const extent_rounding rounding({{.input = "mask", .axis = 0, .extents = {8}}}, two_inputs);
  const auto shapes = rounding.round({input_of({2, 5}), input_of({5, 3})});
  EXPECT_EQ(shapes, (std::vector<extents>{{2, 5}, {8, 3}}));
}

TEST(extent_rounding, leaves_large_inputs_as_they_are) {
  constexpr std::int64_t most = std::int64_t{16} << 20U;  // elements of 64 MiB
  const extent_rounding rounding({{.input = "tokens", .axis = 1, .extents = {most, most + 1}}},
                                 two_inputs);
  EXPECT_EQ(rounding.round({input_of({1, most / 2}), input_of({5, 3})}).at(0), (extents{1, most}));
  EXPECT_TRUE(rounding.round({input_of({2, most / 2}), input_of({5, 3})}).empty());
  EXPECT_TRUE(rounding.round({input_of({1, most + 1}), input_of({5, 3})}).empty());
  // An input with two such dimensions counts once.
  const extent_rounding both(
      {{.symbol = "batch", .extents = {4}}, {.input = "tokens", .axis = 1, .extents = {most / 4}}},
      two_inputs);
  EXPECT_EQ(both.round({input_of({3, most / 8}), input_of({5, 3})}).at(0), (extents{4, most / 4}));
}

// Many small requests would take much memory.
TEST(extent_rounding, makes_no_small_inputs_large) {
  constexpr std::int64_t mebibyte = std::int64_t{1} << 18U;  // elements
  const auto is_rounded = [](std::int64_t from, std::int64_t to) {
    const extent_rounding rounding({{.input = "tokens", .axis = 1, .extents = {to}}}, two_inputs);
    return !rounding.round({input_of({1, from}), input_of({5, 3})}).empty();
  };
  EXPECT_TRUE(is_rounded(1, mebibyte));
  EXPECT_FALSE(is_rounded(1, mebibyte + 4));
  EXPECT_TRUE(is_rounded(mebibyte, 4 * mebibyte));
  EXPECT_FALSE(is_rounded(mebibyte - 1, 4 * mebibyte));
}

class bucketed_models : public session_test {
 protected:
  [[nodiscard]] model_actor models() { return device().models(); }
  void load(const std::string& name, std::shared_ptr<const model_source> source,
            std::vector<extent_buckets> buckets) {
    (void)s().ask<model_description>(
        models(),
        load_model{.name = name, .source = std::move(source), .buckets = std::move(buckets)});
  }
  [[nodiscard]] host_tensor numbers(const extents& shape) {
    std::size_t count = 1;
    for (const auto extent : shape) count *= static_cast<std::size_t>(extent);
    return {s().numbers<float>(count), shape};
  }
  [[nodiscard]] host_tensors results(const std::string& name, const run_input& x,
                                     const request_options& options = {}) {
    return s().ask<host_tensors>(models(), run_model_to_host{.name = name, .inputs = {{"x", x}}},
                                 options);
  }
  [[nodiscard]] std::size_t programs(const std::string& name) {
    return s().ask<model_description>(models(), describe_model{name}).programs;
  }
  static void expect_equal(const host_tensors& found, const host_tensors& expected) {
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      ASSERT_EQ(found[i].shape(), expected[i].shape()) << i;
      EXPECT_EQ(found[i].to_vector<float>(), expected[i].to_vector<float>()) << i;
    }
  }
};

TEST_P(bucketed_models, have_the_results_of_their_own_shapes) {
  load("plain", std::make_shared<scripted_source>(1.5F), {});
  load("scale", std::make_shared<scripted_source>(1.5F),
       {{.input = "x", .axis = 2, .extents = {3, 9}}, {.input = "x", .axis = 0}});
  auto generator = make_generator();
  std::uniform_int_distribution<std::int64_t> extent(1, 9);
  std::set<std::pair<std::int64_t, bool>> buckets;
  for (int i = 0; i < 30; ++i) {
    const extents shape{extent(generator), 2, extent(generator)};
    SCOPED_TRACE(to_string(shape));
    const auto x = numbers(shape);
    const auto expected = results("plain", x);
    expect_equal(results("scale", x), expected);
    const auto first = shape[0] > 6 ? shape[0] > 8 ? 12 : 8 : shape[0] == 5 ? 6 : shape[0];
    buckets.emplace(first, shape[2] > 3);
    EXPECT_EQ(programs("scale"), buckets.size());
    const auto sum = s().ask<tensors>(
        models(), run_model{.name = "scale", .inputs = {{"x", x}}, .outputs = {"sum"}});
    EXPECT_EQ(sum[0].shape(), shape);
    const auto rows = s().ask<tensor>(device().actor(), strided_copy{.x = sum[0]});
    EXPECT_EQ(s().get(rows.as<float>()), expected[1].to_vector<float>());
  }
}

// The elements of the result that depend on the zeros are those that are cut off.
TEST_P(bucketed_models, cut_results_that_are_shorter_than_inputs) {
  program_builder p;
  const auto x = p.input("x");
  const auto pairs = p.add("pairs", pool{.x = x, .window = {2}, .strides = {2}});
  const auto largest = p.add("largest", reduce{.x = x, .kind = reduction::max, .axes = extents{1}});
  const auto built = std::move(p).build({pairs, largest});
  const std::vector<model_value> inputs{{.name = "x"}};
  const std::vector<model_value> outputs{{.name = "pairs"}, {.name = "largest"}};
  load("pairs", std::make_shared<program_source>(built, inputs, outputs),
       {{.input = "x", .axis = 2, .extents = {16, 64}}});
  for (const std::int64_t extent : {2, 15, 16, 17, 40, 64, 65}) {
    SCOPED_TRACE(extent);
    const auto values = numbers({2, 3, extent});
    expect_equal(results("pairs", values),
                 s().ask<host_tensors>(device().programs(), run_to_host{built, {values}}));
  }
}

// A completion thread copies results that do not lie together.
TEST_P(bucketed_models, copy_no_large_results) {
  const auto source = std::make_shared<scripted_source>(2.0F);
  load("scale", source, {{.input = "x", .axis = 1, .extents = {500'000}}});
  const auto count = [&](const extents& shape) {
    const auto x = numbers(shape);
    EXPECT_EQ(results("scale", x)[0].shape(), shape);
    return source->begun(shape);
  };
  EXPECT_EQ(count({1, 450'000}), 1);  // for the shapes of its results
  EXPECT_EQ(count({2, 200'000}), 1);
  EXPECT_EQ(programs("scale"), 2U);
  EXPECT_EQ(count({2, 400'000}), 2);  // and for its program
  EXPECT_EQ(programs("scale"), 3U);
}

TEST_P(bucketed_models, compute_some_requests_with_their_own_shapes) {
  const auto source = std::make_shared<scripted_source>(2.0F);
  load("scale", source, {{.input = "x", .axis = 0, .extents = {8}}});
  (void)results("scale", numbers({9}));  // above all buckets
  (void)results("scale", numbers({0}));  // empty
  (void)results("scale", numbers({}));   // without the axis
  (void)results("scale", numbers({5}), {.bits = result_bits::as_if_alone});
  (void)results("scale", s().put(s().numbers<float>(6)));  // on the device
  for (const auto& shape : {extents{9}, extents{0}, extents{}, extents{5}, extents{6}}) {
    EXPECT_EQ(source->begun(shape), 1) << to_string(shape);
  }
  EXPECT_EQ(source->begun({8}), 0);
  EXPECT_EQ(programs("scale"), 5U);
  (void)results("scale", numbers({8}));
  (void)results("scale", numbers({3}));
  EXPECT_EQ(source->begun({8}), 1);
  EXPECT_EQ(programs("scale"), 6U);
}

/// What a source does with x of eight elements.
enum class eight { refused, shorter, of_other_rank };

/// y = 3 · x of one dimension.
class tripling_source final : public model_source {
 public:
  explicit tripling_source(eight how, bool states_results = true)
      : eight_(how), states_results_(states_results) {}
  [[nodiscard]] const std::vector<model_value>& inputs() const noexcept override { return inputs_; }
  [[nodiscard]] const std::vector<model_value>& outputs() const noexcept override {
    return outputs_;
  }
  [[nodiscard]] model_program program_for(const std::map<std::string, tensor_spec>& specs,
                                          const std::map<std::string, host_tensor>& /*values*/,
                                          const model_options& /*options*/) const override {
    ++begun_;
    const auto& x = specs.at("x");
    program_builder p;
    auto value = p.input("x", x.type, x.shape);
    auto shape = x.shape;
    if (shape == extents{8}) {
      if (eight_ == eight::refused) throw error(errc::unsupported, "eight");
      shape = eight_ == eight::shorter ? extents{4} : extents{8, 1};
      value = eight_ == eight::shorter ? value.slice(0, 0, 4) : value.reshape(shape);
    }
    const auto y = p.add(multiply(value, 3.0));
    model_program made{.program = std::move(p).build({y}), .inputs = {"x"}, .outputs = {"y"}};
    if (states_results_) made.results = {tensor_spec::row_major(x.type, shape)};
    return made;
  }
  [[nodiscard]] int begun() const { return begun_; }

 private:
  const eight eight_;
  const bool states_results_;
  mutable std::atomic<int> begun_{0};
  const std::vector<model_value> inputs_{{.name = "x"}};
  const std::vector<model_value> outputs_{{.name = "y"}};
};

TEST_P(bucketed_models, compute_requests_with_their_own_shapes_if_no_bucket_fits) {
  const auto x = numbers({5});
  for (const auto how : {eight::refused, eight::shorter, eight::of_other_rank}) {
    load("triple", std::make_shared<tripling_source>(how),
         {{.input = "x", .axis = 0, .extents = {8}}});
    for (int i = 0; i < 2; ++i) {
      const auto y = results("triple", x);
      ASSERT_EQ(y[0].shape(), x.shape());
      EXPECT_EQ(y[0].to_vector<float>()[4], 3 * x.to_vector<float>()[4]);
    }
  }
}

TEST_P(bucketed_models, compute_requests_with_their_own_shapes_if_results_are_not_stated) {
  const auto source = std::make_shared<tripling_source>(eight::refused, false);
  load("triple", source, {{.input = "x", .axis = 0}});
  for (const std::int64_t extent : {9, 10, 11}) {
    EXPECT_EQ(results("triple", numbers({extent}))[0].shape(), (extents{extent}));
  }
  EXPECT_EQ(source->begun(), 4);  // the first request learns it
}

TEST_P(bucketed_models, bind_inputs_that_must_be_known) {
  const auto source = std::make_shared<scripted_source>(std::nullopt);
  load("scale", source, {{.input = "x", .axis = 0, .extents = {8}}});
  const auto found = [&](std::int64_t extent, float factor) {
    const auto x = numbers({extent});
    const auto y = s().ask<host_tensors>(
        models(), run_model_to_host{.name = "scale",
                                    .inputs = {{"x", x}, {"factor", std::vector<float>{factor}}}});
    const auto values = x.to_vector<float>();
    const auto products = y[0].to_vector<float>();
    ASSERT_EQ(products.size(), values.size());
    for (std::size_t i = 0; i < values.size(); ++i) EXPECT_EQ(products[i], factor * values[i]);
  };
  found(3, 2);
  found(4, 2);
  found(3, 4);
  EXPECT_EQ(source->begun({8}), 2);
  EXPECT_EQ(programs("scale"), 2U);
}

TEST_P(bucketed_models, are_refused_if_a_bucket_is_not_valid) {
  program_builder p;
  const auto sum = p.add(add(p.input("tokens"), p.input("mask")));
  const auto source = std::make_shared<program_source>(std::move(p).build({sum}), two_inputs,
                                                       std::vector<model_value>{{.name = "y"}});
  const auto expect = [&](const std::string& word, std::vector<extent_buckets> buckets) {
    EXPECT_TRUE(throws(errc::invalid_argument, "buckets: " + word,
                       [&] { load("sum", source, std::move(buckets)); }));
  };
  expect("there is neither a symbol nor an input \"\"", {{}});
  expect("there is neither a symbol nor an input \"none\"", {{.input = "none"}});
  expect("no input has the symbol \"width\"", {{.symbol = "width"}});
  expect("\"mask\" has the shape [length, 3], which has no axis 2", {{.input = "mask", .axis = 2}});
  expect("axis 1 of \"tokens\" is named twice",
         {{.symbol = "length"}, {.input = "tokens", .axis = 1}});
  expect("the symbol \"length\" and the input \"mask\" are given",
         {{.symbol = "length", .input = "mask"}});
  expect("\"mask\" has the shape [length, 3]: axis 1 has a fixed extent",
         {{.input = "mask", .axis = 1}});
  expect("the extent 0 is less than 1", {{.symbol = "length", .extents = {0, 4}}});
  expect("the extent 4 follows 4, but must be greater", {{.symbol = "length", .extents = {4, 4}}});
}

INSTANTIATE_TEST_SUITE_P(devices, bucketed_models, every_device(), parameter_name);

}  // namespace
}  // namespace sluice::test
