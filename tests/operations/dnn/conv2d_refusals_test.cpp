// SPDX-License-Identifier: Apache-2.0
#include "tests/operations/dnn/conv2d_reference.hpp"
#include "tests/operations/executing.hpp"
#include "tests/support/expect_error.hpp"

#include <sluice/operations/dnn.hpp>
#include <sluice/operations/operation_descriptor.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

constexpr auto bad = errc::invalid_argument;
constexpr auto most = std::numeric_limits<std::int64_t>::max();

/// Something wrong with a convolution, and the answer.
struct mutation {
  std::string description;
  errc code;
  std::string argument;  ///< name at the beginning of the error's text
  std::function<void(conv2d&)> apply;
};

class conv2d_refusals : public executor_test {
 protected:
  void SetUp() override {
    executor_test::SetUp();
    if (IsSkipped()) return;
    if (!has_convolutions(runtime().device().id().kind)) {
      GTEST_SKIP() << "this build has no dnn library for the device";
    }
    const auto memory = [&](const extents& shape, allocation_tag name) {
      return tensor(runtime().allocate<float>(1024, stream(), name))
          .slice(0, 0, size(shape))
          .reshape(shape);
    };
    x_ = memory({2, 4, 6, 5}, "x");
    w_ = memory({6, 2, 3, 3}, "w");
    bias_ = memory({6}, "bias");
    y_ = memory({2, 6, 4, 3}, "y");
  }
  void TearDown() override {
    x_ = w_ = bias_ = y_ = {};
    executor_test::TearDown();
  }
  static std::int64_t size(const extents& shape) {
    std::int64_t count = 1;
    for (const auto extent : shape) count *= extent;
    return count;
  }
  [[nodiscard]] conv2d valid() const {
    return {.x = x_, .w = w_, .bias = bias_, .y = y_, .geometry = {.groups = 2}};
  }
  /// Refused requests plan, launch and allocate nothing.
  void expect_refused(const std::vector<mutation>& mutations) {
    for (const auto& m : mutations) {
      SCOPED_TRACE(m.description);
      auto operation = valid();
      m.apply(operation);
      const auto before = runtime().statistics();
      auto answer = submit(test_executor(), std::move(operation));
      // The answer is there at once: no planner has been asked.
      EXPECT_TRUE(answer.answered());
      EXPECT_TRUE(throws(m.code, m.argument + ": ", [&] { (void)answer.get(); }));
      const auto after = runtime().statistics();
      EXPECT_EQ(after.launches, before.launches);
      EXPECT_EQ(after.peak_bytes, before.peak_bytes);
    }
    EXPECT_EQ(test_executor().waiting(), 0U);
  }

  tensor x_, w_, bias_, y_;
};

TEST_P(conv2d_refusals, name_the_operand) {
  const auto stale = [&](const extents& shape) {
    const tensor t(runtime().allocate_bytes(1024, stream(), "stale"), element_type::f32, shape);
    runtime().deallocate(t.block());
    return t;
  };
  device_runtime other(open_device(GetParam()));
  const auto foreign_stream = other.create_stream();
  const auto foreign = [&](const extents& shape) {
    return tensor(other.allocate_bytes(1024, foreign_stream, "foreign"), element_type::f32, shape);
  };
  const auto of_type = [&](element_type type, const extents& shape) {
    return tensor(runtime().allocate_bytes(4096, stream(), "type"), type, shape);
  };
  const auto x_shape = x_.shape(), w_shape = w_.shape(), bias_shape = bias_.shape(),
             y_shape = y_.shape();
  expect_refused({
      {"no x", bad, "x",
       [](conv2d& c) {
         c.x = {};
       }},
      {"no w", bad, "w",
       [](conv2d& c) {
         c.w = {};
       }},
      {"stale x", errc::stale_ref, "x",
       [&](conv2d& c) {
         c.x = stale(x_shape);
       }},
      {"stale w", errc::stale_ref, "w",
       [&](conv2d& c) {
         c.w = stale(w_shape);
       }},
      {"stale bias", errc::stale_ref, "bias",
       [&](conv2d& c) {
         c.bias = stale(bias_shape);
       }},
      {"stale y", errc::stale_ref, "y",
       [&](conv2d& c) {
         c.y = stale(y_shape);
       }},
      {"foreign x", bad, "x",
       [&](conv2d& c) {
         c.x = foreign(x_shape);
       }},
      {"foreign w", bad, "w",
       [&](conv2d& c) {
         c.w = foreign(w_shape);
       }},
      {"foreign bias", bad, "bias",
       [&](conv2d& c) {
         c.bias = foreign(bias_shape);
       }},
      {"foreign y", bad, "y",
       [&](conv2d& c) {
         c.y = foreign(y_shape);
       }},
      {"x of f64", bad, "x",
       [&](conv2d& c) {
         c.x = of_type(element_type::f64, x_shape);
       }},
      {"w of i32", bad, "w",
       [&](conv2d& c) {
         c.w = of_type(element_type::i32, w_shape);
       }},
      {"bias of f16", bad, "bias",
       [&](conv2d& c) {
         c.bias = of_type(element_type::f16, bias_shape);
       }},
      {"y of c64", bad, "y",
       [&](conv2d& c) {
         c.y = of_type(element_type::c64, y_shape);
       }},
      {"one image", bad, "x",
       [&](conv2d& c) {
         c.x = x_.select(0, 0);
       }},
      {"flat filters", bad, "w",
       [&](conv2d& c) {
         c.w = w_.reshape({-1});
       }},
      {"a bias of two dimensions", bad, "bias",
       [&](conv2d& c) {
         c.bias = bias_.reshape({6, 1});
       }},
      {"a short bias", bad, "bias",
       [&](conv2d& c) {
         c.bias = bias_.slice(0, 0, 5);
       }},
      {"y of another shape", bad, "y",
       [&](conv2d& c) {
         c.y = y_.permute({1, 0, 2, 3});
       }},
      {"y of fewer dimensions", bad, "y",
       [&](conv2d& c) {
         c.y = y_.reshape({-1});
       }},
      {"a residual of f16", bad, "residual",
       [&](conv2d& c) {
         c.residual = of_type(element_type::f16, y_shape);
       }},
      {"a residual of another shape", bad, "residual",
       [&](conv2d& c) {
         c.residual = y_.permute({1, 0, 2, 3});
         c.y = {};
       }},
      {"y is the residual", bad, "y",
       [&](conv2d& c) {
         c.residual = y_;
       }},
      {"filters of other channels", bad, "w",
       [&](conv2d& c) {
         c.w = w_.slice(1, 0, 1);
       }},
      {"no taps", bad, "w",
       [&](conv2d& c) {
         c.w = w_.slice(2, 0, 0);
       }},
      {"filters larger than x", bad, "w",
       [&](conv2d& c) {
         c.x = x_.slice(2, 0, 2);
       }},
      {"y is x", bad, "y",
       [&](conv2d& c) {
         c.y = x_.reshape({-1}).slice(0, 0, 144).reshape({2, 6, 4, 3});
       }},
      {"y shares memory with w", bad, "y",
       [&](conv2d& c) {
         const tensor memory = runtime().allocate<float>(1024, stream(), "shared");
         c.w = memory.slice(0, 100, 208).reshape({6, 2, 3, 3});
         c.y = memory.slice(0, 0, 144).reshape({2, 6, 4, 3});
       }},
      {"y shares memory with the bias", bad, "y",
       [&](conv2d& c) {
         const tensor memory = runtime().allocate<float>(1024, stream(), "shared");
         c.bias = memory.slice(0, 143, 149);
         c.y = memory.slice(0, 0, 144).reshape({2, 6, 4, 3});
       }},
      {"y repeats an image", bad, "y",
       [&](conv2d& c) {
         c.y = y_.slice(0, 0, 1).broadcast_to({2, 6, 4, 3});
       }},
  });
}

TEST_P(conv2d_refusals, name_the_member_of_the_geometry) {
  std::vector<mutation> mutations;
  const auto add = [&](const std::string& name, std::int64_t conv2d_geometry::widths::*member,
                       std::int64_t value, const std::string& argument) {
    mutations.push_back({name + ' ' + std::to_string(value), bad, argument, [=](conv2d& c) {
                           c.geometry.padding.*member = value;
                         }});
  };
  using padding = conv2d_geometry::widths;
  add("padding.h", &padding::h, -1, "geometry.padding.h");
  add("padding.w", &padding::w, -most, "geometry.padding.w");
  add("padding.h", &padding::h, most, "geometry.padding.h");
  add("padding.w", &padding::w, most / 2, "geometry.padding.w");
  add("padding.h", &padding::h, most / 4, "y");
  mutations.push_back(
      {"padding after that is negative", bad, "geometry.padding_after.h", [](conv2d& c) {
         c.geometry.padding_after = {.h = -1, .w = 0};
       }});
  mutations.push_back(
      {"padding after that overflows", bad, "geometry.padding_after.w", [](conv2d& c) {
         c.geometry.padding_after = {.w = most};
       }});
  using steps = conv2d_geometry::steps;
  for (const auto& [name, member] : {std::pair{"h", &steps::h}, std::pair{"w", &steps::w}}) {
    for (const auto value : {std::int64_t{0}, std::int64_t{-1}, -most}) {
      const auto text = name + (' ' + std::to_string(value));
      mutations.push_back({"stride " + text, bad, std::string("geometry.stride.") + name,
                           [=, m = member](conv2d& c) {
                             c.geometry.stride.*m = value;
                           }});
      mutations.push_back({"dilation " + text, bad, std::string("geometry.dilation.") + name,
                           [=, m = member](conv2d& c) {
                             c.geometry.dilation.*m = value;
                           }});
    }
    mutations.push_back({std::string("dilation overflows ") + name, bad,
                         std::string("geometry.dilation.") + name, [m = member](conv2d& c) {
                           c.geometry.dilation.*m = most;
                         }});
    for (const auto value : {std::int64_t{1} << 31U, most / 2}) {
      mutations.push_back(
          {"dilation " + std::to_string(value), bad, "w", [=, m = member](conv2d& c) {
             c.geometry.dilation.*m = value;
           }});
    }
  }
  for (const auto groups : {std::int64_t{0}, std::int64_t{-2}, std::int64_t{3}, std::int64_t{5},
                            std::int64_t{1} << 31U, most}) {
    mutations.push_back(
        {"groups " + std::to_string(groups), bad, "geometry.groups", [=](conv2d& c) {
           c.geometry.groups = groups;
         }});
  }
  mutations.push_back({"groups 1", bad, "w", [](conv2d& c) {
                         c.geometry.groups = 1;
                       }});
  expect_refused(mutations);
}

/// Shapes of many elements in little memory: views that repeat elements or have none.
TEST_P(conv2d_refusals, name_operands_of_hostile_size) {
  constexpr auto large = std::int64_t{1} << 31U;
  const auto empty = [&](const extents& shape) {
    return tensor(x_.block(), element_type::f32, shape);
  };
  expect_refused({
      {"2^31 images that are one", errc::out_of_memory, "x",
       [&](conv2d& c) {
         c.x = x_.slice(0, 0, 1).broadcast_to({large, 4, 6, 5});
         c.y = {};
       }},
      {"the size of y overflows", bad, "y",
       [&](conv2d& c) {
         c.x = empty({most / 64, 4, 0, 0});
         c.geometry.padding = {.h = 8, .w = 8};
         c.y = {};
       }},
      {"a y of 800 TB", errc::out_of_memory, "y",
       [&](conv2d& c) {
         c.y = {};
         c.geometry.padding = {.h = 1 << 22, .w = 1 << 22};
       }},
      {"an empty x of 2^62 rows", bad, "geometry.padding.h",
       [&](conv2d& c) {
         c.x = empty({0, 4, std::int64_t{1} << 62U, 5});
         c.geometry.padding.h = std::int64_t{1} << 61U;
         c.y = {};
       }},
      {"no filters of 2^62 taps", bad, "w",
       [&](conv2d& c) {
         c.w = empty({0, 2, std::int64_t{1} << 62U, 3});
       }},
  });
}

INSTANTIATE_TEST_SUITE_P(devices, conv2d_refusals, every_device(), parameter_name);

}  // namespace
}  // namespace sluice::test
