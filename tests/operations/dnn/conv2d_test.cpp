// SPDX-License-Identifier: Apache-2.0
#include "tests/operations/dnn/conv2d_reference.hpp"
#include "tests/operations/executing.hpp"
#include "tests/support/relative_error.hpp"
#include "tests/support/seed.hpp"

#include <sluice/operations/dnn.hpp>
#include <sluice/operations/operation_descriptor.hpp>
#include <sluice/runtime/host_task.hpp>

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <limits>
#include <optional>
#include <ostream>
#include <random>
#include <tuple>
#include <utility>
#include <vector>

namespace sluice::test {

void PrintTo(const conv2d_description& d, std::ostream* stream) {
  const auto& g = d.geometry;
  *stream << "x " << to_string(d.x) << " w " << to_string(d.w) << " padding " << g.padding.h << 'x'
          << g.padding.w << " stride " << g.stride.h << 'x' << g.stride.w << " dilation "
          << g.dilation.h << 'x' << g.dilation.w << " groups " << g.groups
          << (d.has_bias ? " bias" : "") << " activation " << static_cast<int>(d.activation)
          << (d.math == math_mode::tf32 ? " tf32" : "");
}

namespace {

const extents channels_last{0, 2, 3, 1};
constexpr float mark = 12345;

/// How the operands of a convolution lie in memory.
struct conv2d_layouts {
  extents x_order{};
  extents w_order{};
  extents y_order{};
  std::int64_t x_gap = 0;  ///< elements between images of X
  std::int64_t y_gap = 0;  ///< elements between images of Y
  std::size_t offset = 0;  ///< elements before the first one of each operand
  bool gives_y = true;
  bool is_random = false;  ///< instead: each operand with an order, gaps and an offset of its own
};

class conv2d_operation : public executor_test {
 protected:
  void SetUp() override {
    executor_test::SetUp();
    if (IsSkipped()) return;
    if (!has_convolutions(runtime().device().id().kind)) {
      GTEST_SKIP() << "this build has no dnn library for the device";
    }
  }
  [[nodiscard]] bool on_host() { return runtime().device().id().kind == device_kind::host; }

  /// Convolves random operands and compares the result with the definition. The elements around Y
  /// stay as they are.
  void expect_right(const conv2d_description& d, std::mt19937_64& generator,
                    const conv2d_layouts& l = {}) {
    SCOPED_TRACE(::testing::PrintToString(d));
    const auto make = [&](const strided_layout& layout) {
      return strided<float>(runtime(), stream(), generator,
                            l.is_random ? random_layout(generator, layout.shape) : layout);
    };
    const auto x = make({d.x, l.x_order, {l.x_gap, 0, 0, 0}, l.offset});
    const auto w = make({d.w, l.w_order, {}, l.offset});
    const auto bias = make({{d.w[0]}, {}, {}, l.offset});
    const auto shape = output_shape(d);
    auto y = make({shape, l.y_order, {l.y_gap, 0, 0, 0}, l.offset});
    y.replace(std::vector<float>(y.memory().size(), mark));
    const auto result = run(test_executor(), conv2d{.x = x.view(),
                                                    .w = w.view(),
                                                    .bias = d.has_bias ? bias.view() : tensor(),
                                                    .y = l.gives_y ? y.view() : tensor(),
                                                    .geometry = d.geometry,
                                                    .activation = d.activation,
                                                    .math = d.math});
    ASSERT_EQ(result.shape(), shape);
    const auto contents = [](const strided<float>& source, const extents& source_shape) {
      std::vector<float> values;
      for_each_index(source_shape, [&](const extents& i) { values.push_back(source[i]); });
      return values;
    };
    const auto expected =
        conv2d_reference({d, contents(x, d.x), contents(w, d.w), contents(bias, {d.w[0]})});
    std::vector<float> computed;
    if (l.gives_y) {
      EXPECT_EQ(result, y.view());
      auto memory = y.current();
      for_each_index(shape, [&](const extents& i) {
        computed.push_back(std::exchange(memory[y.position(i)], mark));
      });
      EXPECT_EQ(memory, y.memory());
    } else {
      computed = row_major(result);
    }
    EXPECT_LE(relative_error(computed, expected),
              d.math == math_mode::tf32 ? 1e-3 : error_bound<float>(terms(d)));
    EXPECT_EQ(x.current(), x.memory());
    EXPECT_EQ(w.current(), w.memory());
  }

  /// The elements of a new tensor without gaps, in row-major order.
  std::vector<float> row_major(const tensor& t) {
    const gpu_ref<float> all(t.block(), t.offset(), t.size());
    const auto memory = download(all, stream());
    std::vector<float> ordered;
    for_each_index(t.shape(), [&](const extents& i) {
      std::int64_t position = 0;
      for (std::size_t d = 0; d < i.size(); ++d) position += i[d] * t.strides()[d];
      ordered.push_back(memory[static_cast<std::size_t>(position)]);
    });
    return ordered;
  }
  /// Random numbers.
  tensor numbers(const extents& shape) {
    return tensor(
               upload(runtime(), stream(), random_values<float>(generator_, element_count(shape))))
        .reshape(shape);
  }

 private:
  std::mt19937_64 generator_ = make_generator();
};

TEST_P(conv2d_operation, tells_its_library_and_version) {
  const auto& descriptor = descriptor_of(operation_type<conv2d>{});
  const auto kind = runtime().device().id().kind;
  EXPECT_EQ(descriptor.library(kind), on_host() ? "oneDNN" : "cuDNN");
  const auto version = descriptor.version(kind);
  EXPECT_TRUE(!version.empty() && version.front() >= '0' && version.front() <= '9') << version;
}

TEST_P(conv2d_operation, random_geometries) {
  auto generator = make_generator();
  for (int i = 0; i < 80; ++i) {
    expect_right(random_conv2d_description(generator), generator, {.gives_y = i % 2 == 0});
  }
}

TEST_P(conv2d_operation, images_may_stand_apart) {
  auto generator = make_generator();
  const auto draw = [&](int most) {
    return std::uniform_int_distribution<int>(0, most)(generator);
  };
  for (int i = 0; i < 40; ++i) {
    expect_right(random_conv2d_description(generator), generator,
                 {.x_gap = draw(9),
                  .y_gap = draw(9),
                  .offset = static_cast<std::size_t>(draw(5)),
                  .gives_y = draw(3) != 0});
  }
}

TEST_P(conv2d_operation, channels_may_lie_last) {
  auto generator = make_generator();
  const auto draw = [&](int most) {
    return std::uniform_int_distribution<int>(0, most)(generator);
  };
  for (int i = 0; i < 30; ++i) {
    const bool gapless = i % 3 == 0;
    expect_right(random_conv2d_description(generator), generator,
                 {.x_order = channels_last,
                  .w_order = channels_last,
                  .y_order = channels_last,
                  .x_gap = gapless ? 0 : draw(9),
                  .y_gap = gapless ? 0 : draw(9),
                  .gives_y = draw(3) != 0});
  }
}

TEST_P(conv2d_operation, each_operand_may_have_an_order_of_its_own) {
  auto generator = make_generator();
  for (int i = 1; i < 8; ++i) {
    const auto order = [&](int bit) {
      return (i & bit) != 0 ? channels_last : extents{0, 1, 2, 3};
    };
    for (int round = 0; round < 5; ++round) {
      expect_right(random_conv2d_description(generator), generator,
                   {.x_order = order(1), .w_order = order(2), .y_order = order(4)});
    }
  }
}

TEST_P(conv2d_operation, any_strides) {
  auto generator = make_generator();
  for (int i = 0; i < 40; ++i) {
    expect_right(random_conv2d_description(generator), generator,
                 {.gives_y = i % 4 != 0, .is_random = true});
  }
}

TEST_P(conv2d_operation, a_new_result_lies_as_x_does) {
  const auto w_first = numbers({5, 3, 2, 2});
  const auto w_last = numbers({5, 2, 2, 3}).permute({0, 3, 1, 2});
  const auto images = numbers({2, 6, 7, 3});
  for (const auto& w : {w_first, w_last}) {
    const auto first = run(test_executor(), conv2d{.x = numbers({2, 3, 6, 7}), .w = w});
    EXPECT_TRUE(first.is_contiguous());
    const auto last = run(test_executor(), conv2d{.x = images.permute({0, 3, 1, 2}), .w = w});
    EXPECT_EQ(last.shape(), first.shape());
    EXPECT_TRUE(last.permute({0, 2, 3, 1}).is_contiguous());
  }
}

TEST_P(conv2d_operation, operands_may_repeat_elements) {
  const auto x = numbers({1, 3, 6, 7});
  const auto w = numbers({1, 3, 2, 2});
  const auto bias = numbers({1});
  const auto one = row_major(run(test_executor(), conv2d{.x = x, .w = w, .bias = bias}));
  const auto repeated = row_major(run(test_executor(), conv2d{.x = x.broadcast_to({2, 3, 6, 7}),
                                                              .w = w.broadcast_to({5, 3, 2, 2}),
                                                              .bias = bias.broadcast_to({5})}));
  ASSERT_EQ(repeated.size(), 10 * one.size());
  for (auto from = repeated.begin(); from != repeated.end(); from += std::ssize(one)) {
    EXPECT_LE(relative_error(std::vector(from, from + std::ssize(one)), one), error_bound<float>());
  }
}

/// A slice of a batch and of its channels: views without a copy.
TEST_P(conv2d_operation, slices_are_convolved_without_a_copy) {
  const auto images = numbers({6, 5, 9, 8});
  const auto w = numbers({4, 2, 3, 3});
  const auto all = run(test_executor(), conv2d{.x = images.slice(1, 2, 4), .w = w});
  const auto some =
      run(test_executor(), conv2d{.x = images.slice(1, 2, 4).slice(0, 1, 6, 2), .w = w});
  const auto expected = row_major(all);
  const auto computed = row_major(some);
  const auto image = expected.size() / 6;
  for (std::size_t i = 0; i < 3; ++i) {
    const auto from = expected.begin() + static_cast<std::ptrdiff_t>((2 * i + 1) * image);
    EXPECT_LE(
        relative_error(std::vector(computed.begin() + static_cast<std::ptrdiff_t>(i * image),
                                   computed.begin() + static_cast<std::ptrdiff_t>((i + 1) * image)),
                       std::vector(from, from + static_cast<std::ptrdiff_t>(image))),
        error_bound<float>());
  }
}

TEST_P(conv2d_operation, depthwise) {
  auto generator = make_generator();
  for (const std::int64_t multiplier : {1, 3}) {
    for (const std::int64_t channels : {5, 32}) {
      expect_right({.x = {2, channels, 15, 17},
                    .w = {channels * multiplier, 1, 3, 5},
                    .geometry = {.padding = {.h = 1, .w = 2},
                                 .stride = {.h = 2, .w = 1},
                                 .groups = channels},
                    .has_bias = true,
                    .activation = activation::relu},
                   generator);
    }
  }
}

TEST_P(conv2d_operation, pointwise) {
  auto generator = make_generator();
  expect_right({.x = {2, 67, 9, 11}, .w = {33, 67, 1, 1}, .has_bias = true}, generator);
  expect_right({.x = {1, 1, 1, 1}, .w = {1, 1, 1, 1}}, generator);
}

TEST_P(conv2d_operation, one_dimension) {
  auto generator = make_generator();
  expect_right({.x = {3, 7, 1, 301},
                .w = {11, 7, 1, 25},
                .geometry = {.padding = {.w = 12}, .stride = {.w = 3}, .dilation = {.w = 2}},
                .has_bias = true},
               generator);
}

/// oneDNN takes long to plan for wide rows: the host computes them another way.
TEST_P(conv2d_operation, wide_rows) {
  auto generator = make_generator();
  expect_right({.x = {1, 2, 1, 300'000},
                .w = {3, 2, 1, 5},
                .geometry = {.padding = {.w = 2}, .stride = {.w = 2}},
                .has_bias = true},
               generator);
  expect_right({.x = {2, 2, 3, 140'000},
                .w = {2, 1, 2, 3},
                .geometry = {.padding = {.h = 1, .w = 3}, .dilation = {.w = 2}, .groups = 2},
                .has_bias = true,
                .activation = activation::relu},
               generator, {.x_gap = 3, .y_gap = 5});
  expect_right({.x = {1, 3, 2, 140'000}, .w = {2, 3, 2, 3}, .geometry = {.stride = {.w = 3}}},
               generator,
               {.x_order = channels_last, .w_order = channels_last, .y_order = channels_last});
}

TEST_P(conv2d_operation, large_filters) {
  auto generator = make_generator();
  expect_right({.x = {1, 3, 37, 41},
                .w = {8, 3, 11, 11},
                .geometry = {.padding = {.h = 2, .w = 2}, .stride = {.h = 4, .w = 4}}},
               generator);
  expect_right(
      {.x = {1, 2, 33, 35}, .w = {3, 2, 31, 33}, .geometry = {.padding = {.h = 15, .w = 16}}},
      generator);
}

/// More than 1024 products a sum, and shapes that the libraries have their fastest kernels for.
TEST_P(conv2d_operation, many_channels) {
  auto generator = make_generator();
  for (const std::int64_t size : {3, 5}) {
    expect_right({.x = {2, 128, 14, 14},
                  .w = {64, 128, size, size},
                  .geometry = {.padding = {.h = size / 2, .w = size / 2}},
                  .has_bias = true,
                  .activation = activation::relu},
                 generator);
  }
}

// The host cuts these by images, by bands of rows, or by both.
TEST_P(conv2d_operation, large_convolutions) {
  auto generator = make_generator();
  const auto draw = [&](std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(generator);
  };
  for (const std::int64_t images : {1, 2, 5, 40}) {
    for (const bool is_channels_last : {false, true}) {
      const std::int64_t groups = draw(1, 2);
      const auto side = images == 40 ? draw(40, 50) : draw(150, 200) / (images == 5 ? 2 : 1);
      const std::int64_t channels = images == 1 ? 12 : 8;
      const auto order = is_channels_last ? channels_last : extents();
      expect_right({.x = {images, channels * groups, side, side + draw(0, 20)},
                    .w = {16, channels, draw(3, 5), 3},
                    .geometry = {.padding = {.h = draw(0, 4), .w = draw(0, 2)},
                                 .stride = {.h = draw(1, 2), .w = 1},
                                 .dilation = {.h = draw(1, 3), .w = draw(1, 2)},
                                 .groups = groups},
                    .has_bias = draw(0, 1) == 1,
                    .activation = draw(0, 1) == 1 ? activation::relu : activation::none},
                   generator,
                   {.x_order = order,
                    .w_order = order,
                    .y_order = order,
                    .x_gap = draw(0, 7),
                    .y_gap = draw(0, 7)});
    }
  }
}

TEST_P(conv2d_operation, padding_wider_than_the_filter) {
  auto generator = make_generator();
  expect_right({.x = {2, 3, 4, 2},
                .w = {5, 3, 2, 3},
                .geometry = {.padding = {.h = 5, .w = 7}, .stride = {.h = 1, .w = 2}},
                .has_bias = true},
               generator);
}

/// Geometry with numbers around 2^31 and operands of a few elements.
TEST_P(conv2d_operation, far_steps_over_a_small_image) {
  auto generator = make_generator();
  constexpr std::int64_t far = std::int64_t{1} << 30U;
  expect_right({.x = {1, 2, 10, 10},
                .w = {3, 2, 1, 1},
                .geometry = {.padding = {.w = 2},
                             .stride = {.h = 8 * far, .w = std::int64_t{1} << 62U},
                             .dilation = {.h = 8 * far, .w = std::int64_t{1} << 62U}}},
               generator);
  if (!on_host()) return;  // cuDNN need not take the padding
  expect_right({.x = {1, 2, 10, 10},
                .w = {3, 2, 2, 2},
                .geometry = {.padding = {.h = far, .w = far},
                             .stride = {.h = far, .w = far},
                             .dilation = {.h = far, .w = far}},
                .has_bias = true},
               generator);
}

/// cuDNN's algorithms are not tried out on operands of more than 256 MiB.
TEST_P(conv2d_operation, large_operands) {
  if (on_host()) GTEST_SKIP() << "nothing is tried out on the host";
  const auto w = numbers({64, 64, 3, 3});
  const auto image = numbers({1, 64, 224, 224});
  const tensor batch(runtime().allocate_bytes(16 * image.bytes(), stream(), "batch"),
                     element_type::f32, {16, 64, 224, 224});
  launch_recorder recorder = launch_recorder::strict(stream());
  recorder.read(image.as<float>()).write(batch.as<float>());
  recorder.preflight();
  for (std::size_t i = 0; i < 16; ++i) {
    stream().device().copy(static_cast<std::byte*>(batch.address()) + i * image.bytes(),
                           image.address(), image.bytes(), copy_direction::device_to_device,
                           stream().native());
  }
  recorder.commit();
  const auto expected = row_major(run(test_executor(), conv2d{.x = image, .w = w}));
  const auto y = run(test_executor(), conv2d{.x = batch, .w = w});
  EXPECT_LE(
      relative_error(row_major(run(test_executor(), conv2d{.x = batch.slice(0, 15, 16), .w = w})),
                     expected),
      error_bound<float>(64 * 9));
  const auto all = download(y.as<float>(), stream());
  for (const std::size_t i : {0U, 7U, 15U}) {
    const auto first = all.begin() + static_cast<std::ptrdiff_t>(i * expected.size());
    EXPECT_LE(
        relative_error(std::vector(first, first + static_cast<std::ptrdiff_t>(expected.size())),
                       expected),
        error_bound<float>(64 * 9));
  }
}

TEST_P(conv2d_operation, tf32_when_asked_for) {
  auto generator = make_generator();
  expect_right({.x = {2, 64, 14, 14},
                .w = {64, 64, 3, 3},
                .geometry = {.padding = {.h = 1, .w = 1}},
                .math = math_mode::tf32},
               generator);
}

TEST_P(conv2d_operation, an_empty_batch_is_empty) {
  const auto images = numbers({1, 3, 8, 8});
  const auto w = numbers({4, 3, 3, 3});
  const auto bias = numbers({4});
  const auto empty = run(test_executor(), conv2d{.x = images.slice(0, 0, 0), .w = w, .bias = bias});
  EXPECT_EQ(empty.shape(), (extents{0, 4, 6, 6}));
  const auto no_filters = run(test_executor(), conv2d{.x = images, .w = w.slice(0, 0, 0)});
  EXPECT_EQ(no_filters.shape(), (extents{1, 0, 6, 6}));
}

TEST_P(conv2d_operation, nothing_to_sum_is_the_bias) {
  auto generator = make_generator();
  for (const auto& [x, w, padding] : {std::tuple{extents{2, 0, 4, 5}, extents{3, 0, 2, 2}, 0},
                                      std::tuple{extents{2, 3, 0, 5}, extents{3, 3, 2, 2}, 2}}) {
    for (const bool has_bias : {false, true}) {
      for (const auto a : {activation::none, activation::relu}) {
        const conv2d_description d{.x = x,
                                   .w = w,
                                   .geometry = {.padding = {.h = padding}},
                                   .has_bias = has_bias,
                                   .activation = a};
        expect_right(d, generator);
        expect_right(d, generator, {.y_order = channels_last, .y_gap = 4});
        expect_right(d, generator, {.gives_y = false});
      }
    }
  }
}

TEST_P(conv2d_operation, relu_keeps_nan) {
  auto generator = make_generator();
  auto values = random_values<float>(generator, 16 * 12 * 12);
  values[12 * 5 + 5] = std::numeric_limits<float>::quiet_NaN();
  const auto y =
      run(test_executor(),
          conv2d{.x = tensor(upload(runtime(), stream(), values)).reshape({1, 16, 12, 12}),
                 .w = numbers({16, 16, 3, 3}),
                 .bias = numbers({16}),
                 .activation = activation::relu});
  const auto result = row_major(y);
  for (std::size_t k = 0; k < 16; ++k) {
    for (std::size_t p = 3; p <= 5; ++p) {
      for (std::size_t q = 3; q <= 5; ++q) EXPECT_TRUE(std::isnan(result[(k * 10 + p) * 10 + q]));
    }
  }
}

/// A plan serves requests with and without bias and activation.
TEST_P(conv2d_operation, make_a_plan_once) {
  const auto x = numbers({1, 3, 8, 8});
  const auto w = numbers({4, 3, 3, 3});
  (void)run(test_executor(), conv2d{.x = x, .w = w});
  auto& planned = test_executor();
  const auto waits = [&](conv2d operation) {
    auto answer = submit(planned, std::move(operation), {.reply = reply_on::enqueued});
    const bool parked = planned.waiting() != 0;
    (void)wait(answer);
    return parked;
  };
  EXPECT_FALSE(waits({.x = x, .w = w}));
  EXPECT_FALSE(waits({.x = x, .w = w, .activation = activation::relu}));
  EXPECT_FALSE(waits({.x = x, .w = w, .bias = numbers({4})}));
  EXPECT_TRUE(waits({.x = x, .w = w, .geometry = {.stride = {.h = 2}}}));
}

/// A kernel of a convolution may add a bias and apply ReLU.
TEST_P(conv2d_operation, functions_of_networks) {
  auto generator = make_generator();
  for (const auto function : all_activations) {
    for (const std::int64_t groups : {1, 4, 32}) {
      const auto order = generator() % 2 == 0 ? channels_last : extents();
      expect_right({.x = {2, 32, 9, 10},
                    .w = {32, 32 / groups, 3, 3},
                    .geometry = {.padding = {.h = 1, .w = 1}, .groups = groups},
                    .has_bias = generator() % 2 == 0,
                    .activation = function,
                    .math = generator() % 2 == 0 ? math_mode::tf32 : math_mode::f32},
                   generator,
                   {.x_order = order,
                    .w_order = order,
                    .y_order = order,
                    .offset = generator() % 4 == 0 ? std::size_t{1} : std::size_t{0}});
    }
  }
}

/// Launches share the workspace of the lane, which is replaced while launches that use the old one
/// are queued.
TEST_P(conv2d_operation, a_larger_plan_does_not_disturb_what_is_queued) {
  auto generator = make_generator();
  std::vector<std::pair<tensor, std::vector<double>>> results;
  for (const std::int64_t size : {6, 14, 6, 25, 14, 40}) {
    const conv2d_description d{
        .x = {1, 24, size, size}, .w = {20, 24, 3, 3}, .geometry = {.padding = {.h = 1, .w = 1}}};
    const auto p = random_conv2d(d, generator);
    const auto put = [&](const std::vector<float>& values, const extents& shape) {
      return tensor(upload(runtime(), stream(), values)).reshape(shape);
    };
    results.emplace_back(
        run(test_executor(), conv2d{.x = put(p.x, d.x), .w = put(p.w, d.w), .geometry = d.geometry},
            {.reply = reply_on::enqueued}),
        conv2d_reference(p));
  }
  for (const auto& [y, expected] : results) {
    EXPECT_LE(relative_error(row_major(y), expected), error_bound<float>(24 * 9));
  }
}

TEST_P(conv2d_operation, the_same_bits_again) {
  const conv2d operation{
      .x = numbers({2, 32, 20, 20}), .w = numbers({32, 32, 3, 3}), .bias = numbers({32})};
  EXPECT_EQ(row_major(run(test_executor(), operation)), row_major(run(test_executor(), operation)));
}

/// One channel that oneDNN would store in blocks of 8 or 16.
TEST_P(conv2d_operation, one_channel_needs_little_scratch_memory) {
  const auto x = numbers({1, 1, 2000, 2000});
  const auto w = numbers({1, 1, 3, 3});
  stream().synchronize();
  const auto before = runtime().bytes_outstanding();
  auto y = run(test_executor(), conv2d{.x = x, .w = w});
  EXPECT_LE(runtime().bytes_outstanding(), before + y.bytes() + (std::size_t{128} << 20U));
}

/// The threads of the process.
std::ptrdiff_t count_threads() {
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return std::distance(begin(tasks), end(tasks));
}

// OpenMP's threads would spin after the call. A new lane is a thread for which there are none yet.
// The product is too small for the helpers of the device.
TEST_P(conv2d_operation, starts_no_threads_for_a_product_that_is_not_large) {
  if (!on_host()) GTEST_SKIP() << "oneDNN is the library of the host";
  auto generator = make_generator();
  // Starts the planner; there is nothing to multiply.
  (void)run(test_executor(), conv2d{.x = numbers({1, 0, 8, 8}), .w = numbers({2, 0, 3, 3})});
  const auto before = count_threads();
  expect_right({.x = {1, 64, 28, 28}, .w = {64, 64, 3, 3}}, generator);
  EXPECT_EQ(count_threads(), before);
}

INSTANTIATE_TEST_SUITE_P(devices, conv2d_operation, every_device(), parameter_name);

/// The host's stream computes, not the thread that launches.
TEST(conv2d_on_the_host, waits_for_its_turn_on_the_stream) {
  const auto& descriptor = descriptor_of(operation_type<conv2d>{});
  if (!has_convolutions(device_kind::host)) GTEST_SKIP() << "this build has no oneDNN";
  device_runtime runtime(open_device("host"));
  const stream lane = runtime.create_stream();
  lane_libraries libraries(runtime, lane);
  const std::vector<float> ones(4, 1);
  const tensor x = upload(runtime, lane, ones);
  const auto y = upload(runtime, lane, std::vector<float>(4, 0));
  conv2d operation{.x = x.reshape({1, 1, 2, 2}),
                   .w = x.slice(0, 0, 1).reshape({1, 1, 1, 1}),
                   .y = tensor(y).reshape({1, 1, 2, 2})};
  inference_of<4> inferred(sluice::detail::operands_of(operation));
  call_storage call{};
  descriptor.infer(&operation, inferred, call);
  const auto plan = descriptor.make_plan(libraries, call);
  const auto workspace = runtime.allocate_bytes(plan->workspace_bytes() + 1, lane, "workspace");

  std::atomic<bool> open{false};
  float seen = -1;
  submit_host_task(lane, [&open, &seen, first = y.data()] {
    open.wait(false);
    seen = *first;
  });
  const std::array<void*, 4> addresses{operation.x.value().address(), operation.w.value().address(),
                                       nullptr, y.data()};
  descriptor.enqueue(
      libraries, call,
      {.addresses = addresses, .plan = plan.get(), .workspace = workspace.address()});
  open = true;
  open.notify_all();
  lane.synchronize();
  EXPECT_EQ(seen, 0);
  EXPECT_EQ(download(y, lane), ones);
}

}  // namespace
}  // namespace sluice::test
