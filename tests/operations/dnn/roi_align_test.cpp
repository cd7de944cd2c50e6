// SPDX-License-Identifier: Apache-2.0
#include "tests/operations/dnn/real_numbers.hpp"
#include "tests/operations/elementwise/elements.hpp"
#include "tests/support/expect_error.hpp"

#include <sluice/operations/program.hpp>
#include <sluice/operations/roi_align.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

/// The sample at a position of an image; with `largest_term`, its largest term.
template <class Image>
long double sample_of(const Image& image, const extents& size, long double y, long double x,
                      bool largest_term) {
  if (!(y >= -1 && y <= size[0] && x >= -1 && x <= size[1])) return 0;
  y = std::clamp(y, 0.0L, static_cast<long double>(size[0] - 1));
  x = std::clamp(x, 0.0L, static_cast<long double>(size[1] - 1));
  long double sum = 0;
  long double largest = -std::numeric_limits<long double>::infinity();
  for (int i = 0; i < 2; ++i) {
    for (int j = 0; j < 2; ++j) {
      const auto row = std::min(static_cast<std::int64_t>(y) + i, size[0] - 1);
      const auto column = std::min(static_cast<std::int64_t>(x) + j, size[1] - 1);
      const auto weight = (i == 0 ? 1 - (y - std::floor(y)) : y - std::floor(y)) *
                          (j == 0 ? 1 - (x - std::floor(x)) : x - std::floor(x));
      const auto term = weight == 0 ? 0 : weight * image(row, column);
      sum += term;
      largest = std::max(largest, term);
    }
  }
  return largest_term ? largest : sum;
}

class roi_aligns : public elementwise_test {
 protected:
  elements make_rois(element_type type, std::int64_t count, double reach) {
    auto rois = make_contiguous(type, {count, 4});
    std::vector<double> values;
    for (std::int64_t i = 0; i < count * 4; ++i) {
      // So that numbers of samples and positions are not near to where they are rounded.
      values.push_back(static_cast<double>(between(-40, 160)) / 128 * reach +
                       0.013 * static_cast<double>(i % 4 + 1));
    }
    for (std::size_t i = 0; i < values.size(); i += 4) {
      // Some regions have no area.
      if (between(0, 5) == 0) continue;
      if (values[i] > values[i + 2]) std::swap(values[i], values[i + 2]);
      if (values[i + 1] > values[i + 3]) std::swap(values[i + 1], values[i + 3]);
    }
    if (type == element_type::f64) {
      rois.set(values);
    } else {
      rois.set(std::vector<float>(values.begin(), values.end()));
    }
    return rois;
  }

  void expect_regions(roi_align op, element_type type, element_type roi_type, const extents& shape,
                      std::int64_t regions) {
    SCOPED_TRACE(std::string(to_string(type)) + ' ' + to_string(shape) + ", ratio " +
                 std::to_string(op.sampling_ratio) + ", mode " +
                 std::to_string(static_cast<int>(op.mode)) + (op.half_pixel ? ", half_pixel" : "") +
                 ", scale " + std::to_string(op.spatial_scale));
    const auto x = make(type, shape);
    const auto rois = make_rois(
        roi_type, regions, static_cast<double>(std::max(shape[2], shape[3])) / op.spatial_scale);
    auto images = make_contiguous(element_type::i64, {regions});
    std::vector<std::int64_t> indices(static_cast<std::size_t>(regions) + 8);
    for (auto& index : indices) index = between(0, shape[0] - 1);
    images.set(indices);
    op.x = x.view();
    op.rois = rois.view();
    op.batch_indices = images.view();
    const extents y_shape{regions, shape[1], op.height, op.width};
    const auto y = make(type, y_shape);
    const bool has_output = coin();
    if (has_output) op.y = y.view();
    const auto result = run(test_executor(), op);
    EXPECT_EQ(result.shape(), y_shape);
    expect_each(result, [&](const extents& index, const number& computed) {
      const auto image = static_cast<std::int64_t>(images[{index[0]}].real());
      const auto pixel = [&](std::int64_t row, std::int64_t column) {
        return x[{image, index[1], row, column}].real();
      };
      const auto wanted = bin_of(op, rois, index, {shape[2], shape[3]}, pixel);
      // Positions are computed in f32, too.
      const auto bound = 8 * test::bound_of(type, wanted, 400, 64);
      return std::abs(computed.real() - wanted) <= bound
                 ? ::testing::AssertionSuccess()
                 : ::testing::AssertionFailure() << computed.real() << " is not " << wanted;
    });
    if (has_output) expect_gaps_untouched(y);
  }

  template <class Image>
  static long double bin_of(const roi_align& op, const elements& rois, const extents& index,
                            const extents& size, const Image& image) {
    const long double offset = op.half_pixel ? 0.5L : 0;
    const auto coordinate = [&](std::int64_t i) {
      return rois[{index[0], i}].real() * static_cast<long double>(op.spatial_scale) - offset;
    };
    long double start[2];
    long double step[2];
    std::int64_t count[2];
    for (int d = 0; d < 2; ++d) {
      const auto begin = coordinate(1 - d);
      auto length = coordinate(3 - d) - begin;
      if (!op.half_pixel) length = std::max(length, 1.0L);
      const auto bin = length / static_cast<long double>(d == 0 ? op.height : op.width);
      count[d] = op.sampling_ratio > 0 ? op.sampling_ratio
                                       : static_cast<std::int64_t>(std::max(std::ceil(bin), 0.0L));
      start[d] = begin + static_cast<long double>(index[static_cast<std::size_t>(2 + d)]) * bin;
      step[d] = count[d] == 0 ? 0 : bin / static_cast<long double>(count[d]);
    }
    if (count[0] * count[1] == 0) return 0;
    long double sum = 0;
    long double largest = -std::numeric_limits<long double>::infinity();
    for (std::int64_t i = 0; i < count[0]; ++i) {
      for (std::int64_t j = 0; j < count[1]; ++j) {
        const auto value =
            sample_of(image, size, start[0] + (static_cast<long double>(i) + 0.5L) * step[0],
                      start[1] + (static_cast<long double>(j) + 0.5L) * step[1],
                      op.mode == roi_pooling::maximum_term);
        sum += value;
        largest = std::max(largest, value);
      }
    }
    return op.mode == roi_pooling::average ? sum / static_cast<long double>(count[0] * count[1])
                                           : largest;
  }
};

TEST_P(roi_aligns, of_all_types_modes_and_ratios) {
  for (const auto type : real_types) {
    for (const auto mode :
         {roi_pooling::average, roi_pooling::maximum, roi_pooling::maximum_term}) {
      for (const std::int64_t ratio : {0, 1, 2, 3}) {
        const auto roi_type = coin() ? element_type::f32 : element_type::f64;
        expect_regions({.height = between(1, 4),
                        .width = between(1, 4),
                        .sampling_ratio = ratio,
                        .spatial_scale = coin() ? 1.0 : 0.25,
                        .mode = mode,
                        .half_pixel = coin()},
                       type, roi_type,
                       {between(1, 3), between(1, 3), between(1, 12), between(1, 12)},
                       between(1, 5));
      }
    }
  }
}

// A region may be infinite, or have coordinates that are no numbers.
TEST_P(roi_aligns, of_regions_that_are_no_regions) {
  constexpr float infinite = std::numeric_limits<float>::infinity();
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  const auto x = make_contiguous(element_type::f32, {1, 1, 3, 3});
  auto rois = make_contiguous(element_type::f32, {6, 4});
  rois.set(std::vector<float>{nan,       nan,    nan,      nan,   0, 0, infinite, infinite,
                              -1e30F,    -1e30F, 1e30F,    1e30F, 5, 5, 1,        1,
                              -infinite, 0,      infinite, 2,     0, 0, nan,      2});
  auto images = make_contiguous(element_type::i32, {6});
  images.set(std::vector<std::int32_t>{0});
  for (const auto mode : {roi_pooling::average, roi_pooling::maximum}) {
    for (const bool half_pixel : {true, false}) {
      const auto result = run(test_executor(), roi_align{.x = x.view(),
                                                         .rois = rois.view(),
                                                         .batch_indices = images.view(),
                                                         .height = 2,
                                                         .width = 2,
                                                         .mode = mode,
                                                         .half_pixel = half_pixel});
      EXPECT_EQ(result.shape(), (extents{6, 1, 2, 2}));
    }
  }
}

TEST_P(roi_aligns, of_no_regions) {
  const auto x = make(element_type::f32, {0, 2, 4, 5}).view();
  const auto rois = make(element_type::f32, {0, 4}).view();
  const auto images = make(element_type::i64, {0}).view();
  EXPECT_EQ(run(test_executor(),
                roi_align{.x = x, .rois = rois, .batch_indices = images, .height = 2, .width = 3})
                .shape(),
            (extents{0, 2, 2, 3}));
}

TEST_P(roi_aligns, are_steps_of_programs) {
  const auto x = make_contiguous(element_type::f32, {1, 2, 7, 6});
  const auto rois = make_rois(element_type::f32, 3, 6);
  auto images = make_contiguous(element_type::i64, {3});
  images.set(std::vector<std::int64_t>{0});
  program_builder p;
  const auto step = p.add("regions", roi_align{.x = p.input("image"),
                                               .rois = p.input("boxes"),
                                               .batch_indices = p.input("images"),
                                               .height = 3,
                                               .width = 3});
  const program regions = std::move(p).build({step}, {.capture = capture_policy::at_prepare});
  const auto alone = run(test_executor(), roi_align{.x = x.view(),
                                                    .rois = rois.view(),
                                                    .batch_indices = images.view(),
                                                    .height = 3,
                                                    .width = 3});
  const auto results =
      run(test_executor(), sluice::run{regions, {x.view(), rois.view(), images.view()}});
  EXPECT_EQ(contents_of(results[0]), contents_of(alone));
}

TEST_P(roi_aligns, of_images_that_do_not_exist) {
  auto x = make_contiguous(element_type::f32, {2, 1, 1, 1});
  x.set(std::vector<float>{3, 5});
  auto rois = make_contiguous(element_type::f32, {2, 4});
  rois.set(std::vector<float>{0, 0, 1, 1});
  auto images = make_contiguous(element_type::i64, {2});
  images.set(std::vector<std::int64_t>{-1, 2});
  const bool is_host = runtime().device().id().kind == device_kind::host;
  roi_align op{.x = x.view(), .rois = rois.view(), .batch_indices = images.view()};
  for (const auto policy :
       {out_of_range_policy::usual, out_of_range_policy::clamp, out_of_range_policy::error}) {
    op.out_of_range = policy;
    const bool is_usual = policy == out_of_range_policy::usual;
    if (is_usual ? is_host : policy == out_of_range_policy::error) {
      EXPECT_TRUE(throws(errc::invalid_argument, "is out of range for the extent 2",
                         [&] { (void)run(test_executor(), op); }));
    } else {
      expect_elements(run(test_executor(), op),
                      [](const extents& i) { return number(i[0] == 0 ? 3 : 5); });
    }
  }
}

TEST_P(roi_aligns, refuse_what_does_not_fit) {
  const roi_align valid{.x = make(element_type::f32, {2, 3, 4, 5}).view(),
                        .rois = make(element_type::f32, {6, 4}).view(),
                        .batch_indices = make(element_type::i64, {6}).view()};
  const auto refuse = [&](const std::string& text, auto change) {
    auto operation = valid;
    change(operation);
    EXPECT_TRUE(
        throws(errc::invalid_argument, text, [&] { (void)run(test_executor(), operation); }));
  };
  refuse("x: is not given", [](auto& r) { r.x = {}; });
  refuse("rois: is not given", [](auto& r) { r.rois = {}; });
  refuse("batch_indices: is not given", [](auto& r) { r.batch_indices = {}; });
  refuse("x: is of type i8", [&](auto& r) { r.x = make(element_type::i8, {2, 3, 4, 5}).view(); });
  refuse("rois: is of type i32", [&](auto& r) { r.rois = make(element_type::i32, {6, 4}).view(); });
  refuse("batch_indices: is of type f32",
         [&](auto& r) { r.batch_indices = make(element_type::f32, {6}).view(); });
  refuse("x: has the shape [2, 3, 0, 5]", [&](auto& r) {
    r.x = make(element_type::f32, {2, 3, 0, 5}).view();
  });
  refuse("x: has the shape [0, 3, 4, 5]", [&](auto& r) {
    r.x = make(element_type::f32, {0, 3, 4, 5}).view();
  });
  refuse("rois: has the shape [6, 5]", [&](auto& r) {
    r.rois = make(element_type::f32, {6, 5}).view();
  });
  refuse("batch_indices: has the shape [5]",
         [&](auto& r) { r.batch_indices = make(element_type::i64, {5}).view(); });
  refuse("height: 0", [](auto& r) { r.height = 0; });
  refuse("width: -1", [](auto& r) { r.width = -1; });
  refuse("sampling_ratio: -1", [](auto& r) { r.sampling_ratio = -1; });
  refuse("spatial_scale: is not", [](auto& r) { r.spatial_scale = NAN; });
  refuse("mode: 3", [](auto& r) { r.mode = static_cast<roi_pooling>(3); });
  EXPECT_TRUE(throws(errc::unsupported, "roi_align: takes", [&] {
    auto operation = valid;
    operation.sampling_ratio = std::int64_t{1} << 40U;
    (void)run(test_executor(), operation);
  }));
}

INSTANTIATE_TEST_SUITE_P(devices, roi_aligns, every_device(), parameter_name);

}  // namespace
}  // namespace sluice::test
