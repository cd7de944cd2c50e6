// SPDX-License-Identifier: Apache-2.0
#include "actors/dnn/dnn_library.hpp"

#include "tests/actors/references/conv2d.hpp"
#include "tests/support/devices.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/relative_error.hpp"
#include "tests/support/seed.hpp"

#include <sluice/runtime/host_task.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

using actors::conv2d_plan;

std::string describe(const conv2d_description& d) {
  const conv2d_geometry& g = d.geometry;
  const auto join = [](auto... numbers) {
    std::string text;
    for (const std::int64_t number : {numbers...}) {
      if (!text.empty()) text += 'x';
      text += std::to_string(number);
    }
    return text;
  };
  return "input " + join(d.input.n, d.input.c, d.input.h, d.input.w) + " filter " +
         join(d.filter.k, d.filter.c, d.filter.r, d.filter.s) + " padding " +
         join(g.padding.h, g.padding.w) + " stride " + join(g.stride.h, g.stride.w) + " dilation " +
         join(g.dilation.h, g.dilation.w) + " groups " + join(g.groups) +
         (d.has_bias ? " bias" : "") + (d.activation == activation::relu ? " relu" : "") +
         (d.math == math_mode::tf32 ? " tf32" : "");
}

/// Products summed for one element of the result.
std::size_t terms(const conv2d_description& d) {
  return static_cast<std::size_t>(d.filter.c * d.filter.r * d.filter.s);
}

class dnn_library : public device_test {
 protected:
  void SetUp() override {
    device_test::SetUp();
    if (IsSkipped()) return;
    try {
      library_ = actors::make_dnn_library(runtime(), stream());
    } catch (const error& e) {
      if (on_host() || e.code() != errc::unsupported) throw;
      GTEST_SKIP() << e.what();
    }
  }
  void TearDown() override {
    library_.reset();
    device_test::TearDown();
  }

  [[nodiscard]] actors::dnn_library& library() const { return *library_; }
  void drop_library() { library_.reset(); }

  /// Queues the convolution of `plan` on operands that are uploaded now; y starts as NaN.
  gpu_ref<float> launch(const conv2d_plan& plan, const conv2d_problem& p) {
    const auto x = upload(runtime(), stream(), p.x);
    const auto w = upload(runtime(), stream(), p.w);
    const auto bias = upload(runtime(), stream(), p.bias);
    const std::vector<float> nothing(plan.y_elements(), std::numeric_limits<float>::quiet_NaN());
    const auto y = upload(runtime(), stream(), nothing);
    launch_recorder recorder = launch_recorder::strict(stream());
    recorder.read(x).read(w).read(bias).write(y);
    recorder.preflight();
    library_->conv2d(plan, x.data(), w.data(), plan.description().has_bias ? bias.data() : nullptr,
                     y.data());
    recorder.commit();
    return y;
  }

  void expect_right(const conv2d_description& d, std::mt19937_64& generator) {
    SCOPED_TRACE(describe(d));
    const auto p = random_conv2d(d, generator);
    const auto plan = library_->prepare(d);
    const double bound = d.math == math_mode::tf32 ? 1e-3 : error_bound<float>(terms(d));
    EXPECT_LE(relative_error(download(launch(*plan, p), stream()), conv2d_reference(p)), bound);
  }

 private:
  std::unique_ptr<actors::dnn_library> library_;
};

TEST_P(dnn_library, tells_its_name_and_version) {
  EXPECT_EQ(library().name(), on_host() ? "oneDNN" : "cuDNN");
  const std::string version = library().version();
  EXPECT_TRUE(!version.empty() && version.front() >= '0' && version.front() <= '9') << version;
}

TEST_P(dnn_library, conv2d_random_geometries) {
  auto generator = make_generator();
  for (int i = 0; i < 80; ++i) expect_right(random_conv2d_description(generator), generator);
}

TEST_P(dnn_library, conv2d_depthwise) {
  auto generator = make_generator();
  for (const std::int64_t multiplier : {1, 3}) {
    for (const std::int64_t channels : {5, 32}) {
      expect_right({.input = {.n = 2, .c = channels, .h = 15, .w = 17},
                    .filter = {.k = channels * multiplier, .c = 1, .r = 3, .s = 5},
                    .geometry = {.padding = {.h = 1, .w = 2},
                                 .stride = {.h = 2, .w = 1},
                                 .groups = channels},
                    .has_bias = true,
                    .activation = activation::relu},
                   generator);
    }
  }
}

TEST_P(dnn_library, conv2d_pointwise) {
  auto generator = make_generator();
  expect_right({.input = {.n = 2, .c = 67, .h = 9, .w = 11},
                .filter = {.k = 33, .c = 67, .r = 1, .s = 1},
                .has_bias = true},
               generator);
  expect_right(
      {.input = {.n = 1, .c = 1, .h = 1, .w = 1}, .filter = {.k = 1, .c = 1, .r = 1, .s = 1}},
      generator);
}

TEST_P(dnn_library, conv2d_of_one_dimension) {
  auto generator = make_generator();
  expect_right({.input = {.n = 3, .c = 7, .h = 1, .w = 301},
                .filter = {.k = 11, .c = 7, .r = 1, .s = 25},
                .geometry = {.padding = {.w = 12}, .stride = {.w = 3}, .dilation = {.w = 2}},
                .has_bias = true},
               generator);
}

TEST_P(dnn_library, conv2d_large_filters) {
  auto generator = make_generator();
  expect_right({.input = {.n = 1, .c = 3, .h = 37, .w = 41},
                .filter = {.k = 8, .c = 3, .r = 11, .s = 11},
                .geometry = {.padding = {.h = 2, .w = 2}, .stride = {.h = 4, .w = 4}}},
               generator);
  expect_right({.input = {.n = 1, .c = 2, .h = 33, .w = 35},
                .filter = {.k = 3, .c = 2, .r = 31, .s = 33},
                .geometry = {.padding = {.h = 15, .w = 16}}},
               generator);
}

/// More than 1024 products a sum, and shapes that the libraries have their fastest kernels for.
TEST_P(dnn_library, conv2d_many_channels) {
  auto generator = make_generator();
  for (const std::int64_t size : {3, 5}) {
    expect_right({.input = {.n = 2, .c = 128, .h = 14, .w = 14},
                  .filter = {.k = 64, .c = 128, .r = size, .s = size},
                  .geometry = {.padding = {.h = size / 2, .w = size / 2}},
                  .has_bias = true,
                  .activation = activation::relu},
                 generator);
  }
}

TEST_P(dnn_library, conv2d_padding_wider_than_the_filter) {
  auto generator = make_generator();
  expect_right({.input = {.n = 2, .c = 3, .h = 4, .w = 2},
                .filter = {.k = 5, .c = 3, .r = 2, .s = 3},
                .geometry = {.padding = {.h = 5, .w = 7}, .stride = {.h = 1, .w = 2}},
                .has_bias = true},
               generator);
}

TEST_P(dnn_library, conv2d_tf32_when_asked_for) {
  auto generator = make_generator();
  expect_right({.input = {.n = 2, .c = 64, .h = 14, .w = 14},
                .filter = {.k = 64, .c = 64, .r = 3, .s = 3},
                .geometry = {.padding = {.h = 1, .w = 1}},
                .math = math_mode::tf32},
               generator);
}

TEST_P(dnn_library, conv2d_of_an_empty_batch_is_empty) {
  const auto plan = library().prepare({.input = {.n = 0, .c = 3, .h = 8, .w = 8},
                                       .filter = {.k = 4, .c = 3, .r = 3, .s = 3},
                                       .has_bias = true});
  EXPECT_EQ(plan->output(), (nchw_shape{.n = 0, .c = 4, .h = 6, .w = 6}));
  EXPECT_EQ(plan->y_elements(), 0u);
  library().conv2d(*plan, nullptr, nullptr, nullptr, nullptr);
  const auto no_filters = library().prepare(
      {.input = {.n = 2, .c = 3, .h = 8, .w = 8}, .filter = {.k = 0, .c = 3, .r = 3, .s = 3}});
  library().conv2d(*no_filters, nullptr, nullptr, nullptr, nullptr);
  stream().synchronize();
}

TEST_P(dnn_library, conv2d_of_nothing_is_the_bias) {
  auto generator = make_generator();
  const conv2d_description without_channels{.input = {.n = 2, .c = 0, .h = 4, .w = 5},
                                            .filter = {.k = 3, .c = 0, .r = 2, .s = 2}};
  const conv2d_description without_height{.input = {.n = 2, .c = 3, .h = 0, .w = 5},
                                          .filter = {.k = 3, .c = 3, .r = 2, .s = 2},
                                          .geometry = {.padding = {.h = 2}}};
  for (conv2d_description d : {without_channels, without_height}) {
    for (const bool has_bias : {false, true}) {
      for (const activation a : {activation::none, activation::relu}) {
        d.has_bias = has_bias;
        d.activation = a;
        expect_right(d, generator);
      }
    }
  }
}

TEST_P(dnn_library, relu_keeps_nan) {
  auto generator = make_generator();
  const conv2d_description d{.input = {.n = 1, .c = 16, .h = 12, .w = 12},
                             .filter = {.k = 16, .c = 16, .r = 3, .s = 3},
                             .has_bias = true,
                             .activation = activation::relu};
  auto problem = random_conv2d(d, generator);
  problem.x[12 * 5 + 5] = std::numeric_limits<float>::quiet_NaN();
  const auto plan = library().prepare(d);
  const std::vector<float> y = download(launch(*plan, problem), stream());
  for (std::size_t k = 0; k < 16; ++k) {
    for (std::size_t p = 3; p <= 5; ++p) {
      for (std::size_t q = 3; q <= 5; ++q) EXPECT_TRUE(std::isnan(y[(k * 10 + p) * 10 + q]));
    }
  }
}

TEST_P(dnn_library, plans_are_cached) {
  conv2d_description d{.input = {.n = 1, .c = 3, .h = 8, .w = 8},
                       .filter = {.k = 4, .c = 3, .r = 3, .s = 3}};
  const auto first = library().prepare(d);
  EXPECT_EQ(library().prepare(d), first);
  d.activation = activation::relu;
  EXPECT_NE(library().prepare(d), first);
}

TEST_P(dnn_library, invalid_geometry_is_refused) {
  EXPECT_TRUE(throws(errc::invalid_argument, "stride.w", [&] {
    (void)library().prepare({.input = {.n = 1, .c = 3, .h = 8, .w = 8},
                             .filter = {.k = 4, .c = 3, .r = 3, .s = 3},
                             .geometry = {.stride = {.h = 1, .w = 0}}});
  }));
}

/// Preparing a larger convolution replaces the workspace while launches that use the old one are
/// queued.
TEST_P(dnn_library, launches_survive_the_growth_of_the_workspace) {
  auto generator = make_generator();
  std::vector<std::shared_ptr<const conv2d_plan>> plans;
  std::vector<std::pair<gpu_ref<float>, std::vector<double>>> results;
  for (const std::int64_t size : {6, 14, 25, 40}) {
    const conv2d_description d{.input = {.n = 1, .c = 24, .h = size, .w = size},
                               .filter = {.k = 20, .c = 24, .r = 3, .s = 3},
                               .geometry = {.padding = {.h = 1, .w = 1}}};
    plans.push_back(library().prepare(d));
    for (const auto& plan : plans) {
      const auto p = random_conv2d(plan->description(), generator);
      results.emplace_back(launch(*plan, p), conv2d_reference(p));
    }
  }
  drop_library();
  for (const auto& [y, expected] : results) {
    EXPECT_LE(relative_error(download(y, stream()), expected), error_bound<float>(24 * 9));
  }
}

TEST_P(dnn_library, the_same_bits_again) {
  auto generator = make_generator();
  const conv2d_description d{.input = {.n = 2, .c = 32, .h = 20, .w = 20},
                             .filter = {.k = 32, .c = 32, .r = 3, .s = 3},
                             .has_bias = true};
  const auto p = random_conv2d(d, generator);
  const auto plan = library().prepare(d);
  EXPECT_EQ(download(launch(*plan, p), stream()), download(launch(*plan, p), stream()));
}

TEST_P(dnn_library, gives_its_memory_back) {
  {
    auto generator = make_generator();
    expect_right({.input = {.n = 1, .c = 24, .h = 20, .w = 20},
                  .filter = {.k = 20, .c = 24, .r = 3, .s = 3}},
                 generator);
  }
  drop_library();
  stream().synchronize();
  EXPECT_EQ(runtime().bytes_outstanding(), 0u);
}

INSTANTIATE_TEST_SUITE_P(devices, dnn_library, every_device(), parameter_name);

/// The host library only queues: behind a closed gate the call returns, and y is still as it was.
TEST(dnn_library_host, conv2d_waits_for_its_turn_on_the_stream) {
  device_runtime runtime(open_device("host"));
  const stream lane = runtime.create_stream();
  const auto library = actors::make_dnn_library(runtime, lane);
  const auto plan = library->prepare(
      {.input = {.n = 1, .c = 1, .h = 2, .w = 2}, .filter = {.k = 1, .c = 1, .r = 1, .s = 1}});
  const std::vector<float> ones(4, 1);
  const std::vector<float> zeros(4, 0);
  const auto x = upload(runtime, lane, ones);
  const auto y = upload(runtime, lane, zeros);

  std::atomic<bool> open{false};
  float seen = -1;
  submit_host_task(lane, [&open, &seen, first = y.data()] {
    open.wait(false);
    seen = *first;
  });
  library->conv2d(*plan, x.data(), x.data(), nullptr, y.data());
  open = true;
  open.notify_all();
  lane.synchronize();
  EXPECT_EQ(seen, 0);
  EXPECT_EQ(download(y, lane), ones);
}

}  // namespace
}  // namespace sluice::test
