// SPDX-License-Identifier: Apache-2.0
#include "tests/support/relative_error.hpp"
#include "tests/support/seed.hpp"
#include "tests/tools/sluice/program.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace sluice::test {
namespace {

/// One convolution; heights in `h`, widths in `w`.
struct conv_case {
  std::int64_t n = 1, channels = 1, height = 1, width = 1;  // of the images
  std::int64_t filters = 1, r = 1, s = 1;
  std::int64_t groups = 1;
  std::int64_t stride_h = 1, stride_w = 1;
  std::int64_t padding_h = 0, padding_w = 0;
  std::int64_t dilation_h = 1, dilation_w = 1;
  bool bias = false;
  bool relu = false;

  [[nodiscard]] std::int64_t out_height() const {
    return (height + 2 * padding_h - dilation_h * (r - 1) - 1) / stride_h + 1;
  }
  [[nodiscard]] std::int64_t out_width() const {
    return (width + 2 * padding_w - dilation_w * (s - 1) - 1) / stride_w + 1;
  }
};

using floats = std::vector<float>;

/// The definition, term by term, in double.
std::vector<double> reference(const conv_case& c, const floats& x, const floats& w,
                              const floats& bias) {
  const std::int64_t group_channels = c.channels / c.groups;
  const std::int64_t group_filters = c.filters / c.groups;
  std::vector<double> y;
  for (std::int64_t n = 0; n < c.n; ++n) {
    for (std::int64_t k = 0; k < c.filters; ++k) {
      for (std::int64_t i = 0; i < c.out_height(); ++i) {
        for (std::int64_t j = 0; j < c.out_width(); ++j) {
          double sum = c.bias ? bias[static_cast<std::size_t>(k)] : 0.0;
          for (std::int64_t g = 0; g < group_channels; ++g) {
            const std::int64_t channel = k / group_filters * group_channels + g;
            for (std::int64_t p = 0; p < c.r; ++p) {
              for (std::int64_t q = 0; q < c.s; ++q) {
                const std::int64_t row = i * c.stride_h - c.padding_h + p * c.dilation_h;
                const std::int64_t column = j * c.stride_w - c.padding_w + q * c.dilation_w;
                if (row < 0 || row >= c.height || column < 0 || column >= c.width) continue;
                sum += static_cast<double>(x[static_cast<std::size_t>(
                           ((n * c.channels + channel) * c.height + row) * c.width + column)]) *
                       static_cast<double>(w[static_cast<std::size_t>(
                           ((k * group_channels + g) * c.r + p) * c.s + q)]);
              }
            }
          }
          y.push_back(c.relu ? std::max(sum, 0.0) : sum);
        }
      }
    }
  }
  return y;
}

class conv2d_command : public program_test {
 protected:
  void check(std::mt19937_64& generator, const conv_case& c, const std::string& device) const {
    const auto count = [](std::int64_t elements) {
      return static_cast<std::size_t>(elements);
    };
    const std::int64_t group_channels = c.channels / c.groups;
    const auto x = normal_values<float>(generator, count(c.n * c.channels * c.height * c.width));
    const auto w = normal_values<float>(generator, count(c.filters * group_channels * c.r * c.s));
    const auto bias = normal_values<float>(generator, count(c.filters));
    save<float>("x.npy", {c.n, c.channels, c.height, c.width}, x);
    save<float>("w.npy", {c.filters, group_channels, c.r, c.s}, w);
    save<float>("b.npy", {c.filters}, bias);

    std::vector<std::string> arguments{"conv2d",  "x.npy",    "w.npy", "-o",
                                       "out.npy", "--device", device};
    const auto add = [&](const std::string& name, std::int64_t h, std::int64_t v,
                         std::int64_t usual) {
      if (h == usual && v == usual) return;
      // One number stands for both.
      std::string pair = std::to_string(h);
      if (h != v) pair.append(",").append(std::to_string(v));
      arguments.insert(arguments.end(), {name, pair});
    };
    add("--stride", c.stride_h, c.stride_w, 1);
    add("--padding", c.padding_h, c.padding_w, 0);
    add("--dilation", c.dilation_h, c.dilation_w, 1);
    if (c.groups != 1) arguments.insert(arguments.end(), {"--groups", std::to_string(c.groups)});
    if (c.bias) arguments.insert(arguments.end(), {"--bias", "b.npy"});
    if (c.relu) arguments.insert(arguments.end(), {"--activation", "relu"});
    SCOPED_TRACE(::testing::PrintToString(arguments));
    ASSERT_NO_FATAL_FAILURE(expect_success(arguments));

    const io::array out = load("out.npy");
    EXPECT_EQ(out.shape,
              (std::vector<std::int64_t>{c.n, c.filters, c.out_height(), c.out_width()}));
    EXPECT_LE(relative_error(out.values<float>(), reference(c, x, w, bias)), error_bound<float>());
  }
};

TEST_F(conv2d_command, equals_a_reference) {
  auto generator = make_generator();
  for (const std::string& device : program_devices()) {
    for (int i = 0; i < 10; ++i) {
      conv_case c;
      c.groups = integer(generator, 1, 3);
      c.n = integer(generator, 1, 3);
      c.channels = c.groups * integer(generator, 1, 3);
      c.filters = c.groups * integer(generator, 1, 3);
      c.r = integer(generator, 1, 4);
      c.s = integer(generator, 1, 4);
      c.stride_h = integer(generator, 1, 3);
      c.stride_w = integer(generator, 1, 3);
      c.padding_h = integer(generator, 0, 2);
      c.padding_w = integer(generator, 0, 2);
      c.dilation_h = integer(generator, 1, 2);
      c.dilation_w = integer(generator, 1, 2);
      c.height = integer(generator, c.dilation_h * (c.r - 1) + 1, 17);
      c.width = integer(generator, c.dilation_w * (c.s - 1) + 1, 17);
      c.bias = integer(generator, 0, 1) == 1;
      c.relu = integer(generator, 0, 1) == 1;
      check(generator, c, device);
    }
  }
}

TEST_F(conv2d_command, an_empty_batch_or_no_filters_give_an_empty_result) {
  auto generator = make_generator();
  for (const std::string& device : program_devices()) {
    check(generator, {.n = 0, .channels = 2, .height = 5, .width = 5, .filters = 3, .r = 3, .s = 3},
          device);
    check(generator,
          {.n = 2,
           .channels = 2,
           .height = 5,
           .width = 5,
           .filters = 0,
           .r = 3,
           .s = 3,
           .bias = true},
          device);
  }
}

TEST_F(conv2d_command, refuses_files_that_do_not_fit) {
  save<float>("x.npy", {1, 4, 6, 6}, floats(144, 1));
  save<float>("w.npy", {6, 4, 3, 3}, floats(216, 1));
  save<float>("half.npy", {6, 2, 3, 3}, floats(108, 1));
  save<float>("large.npy", {6, 4, 7, 3}, floats(504, 1));
  save<float>("flat.npy", {6, 4, 0, 3}, {});
  save<float>("cube.npy", {4, 6, 6}, floats(144, 1));
  save<double>("double.npy", {1, 4, 6, 6}, std::vector<double>(144, 1));
  save<float>("five.npy", {5}, floats(5, 1));
  save<float>("row.npy", {1, 6}, floats(6, 1));
  expect_refused({"missing.npy"}, {"conv2d", "missing.npy", "w.npy", "-o", "out.npy"});
  expect_refused({"cube.npy"}, {"conv2d", "cube.npy", "w.npy", "-o", "out.npy"});
  expect_refused({"cube.npy"}, {"conv2d", "x.npy", "cube.npy", "-o", "out.npy"});
  expect_refused({"double.npy", "f64"}, {"conv2d", "double.npy", "w.npy", "-o", "out.npy"});
  expect_refused({"double.npy", "f64"}, {"conv2d", "x.npy", "double.npy", "-o", "out.npy"});
  expect_refused({"half.npy"}, {"conv2d", "x.npy", "half.npy", "-o", "out.npy"});
  expect_refused({"large.npy"}, {"conv2d", "x.npy", "large.npy", "-o", "out.npy"});
  expect_refused({"flat.npy"}, {"conv2d", "x.npy", "flat.npy", "-o", "out.npy"});
  for (const char* bias : {"five.npy", "row.npy", "double.npy", "missing.npy"})
    expect_refused({bias}, {"conv2d", "x.npy", "w.npy", "-o", "out.npy", "--bias", bias});
  expect_refused({"--groups"}, {"conv2d", "x.npy", "w.npy", "-o", "out.npy", "--groups", "3"});
  expect_refused({"--groups"}, {"conv2d", "x.npy", "half.npy", "-o", "out.npy", "--groups", "4"});
  expect_refused({"w.npy"}, {"conv2d", "x.npy", "w.npy", "-o", "out.npy", "--dilation", "3"});
}

TEST_F(conv2d_command, refuses_options_out_of_range) {
  save<float>("x.npy", {1, 4, 6, 6}, floats(144, 1));
  save<float>("w.npy", {6, 4, 3, 3}, floats(216, 1));
  const auto refused = [&](const std::string& option, const std::string& value) {
    expect_refused({option}, {"conv2d", "x.npy", "w.npy", "-o", "out.npy", option, value});
  };
  for (const char* value : {"0", "-1", "1,0", "1,2,3", ",", "1,", ",1", "", "1.5", "1x", "1;2",
                            "2147483648", "99999999999999999999"}) {
    refused("--stride", value);
    refused("--dilation", value);
  }
  for (const char* value : {"-1", "1,-1", "1,2,3", ",", "", "x", "2147483648"})
    refused("--padding", value);
  for (const char* value : {"0", "-1", "1,1", "", "1.0", "all"}) refused("--groups", value);
  for (const char* value : {"gelu", "ReLU", ""}) refused("--activation", value);
  // Too large together, also when there is nothing to compute.
  save<float>("none.npy", {0, 4, 6, 6}, {});
  expect_refused({"w.npy"},
                 {"conv2d", "none.npy", "w.npy", "-o", "out.npy", "--padding", "2147483647"});
  expect_refused({}, {"conv2d", "x.npy", "w.npy", "-o", "out.npy", "--padding", "2147483647"});
  expect_refused({"memory"}, {"conv2d", "x.npy", "w.npy", "-o", "out.npy", "--padding", "9000000"});
}

}  // namespace
}  // namespace sluice::test
