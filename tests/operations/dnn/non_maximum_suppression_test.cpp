// SPDX-License-Identifier: Apache-2.0
#include "tests/operations/dnn/real_numbers.hpp"
#include "tests/operations/elementwise/elements.hpp"
#include "tests/support/expect_error.hpp"

#include <sluice/operations/non_maximum_suppression.hpp>
#include <sluice/operations/program.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

using selected_row = std::array<std::int64_t, 3>;

class suppressions : public elementwise_test {
 protected:
  /// Real numbers in a tensor of any strides.
  elements make_numbers(element_type type, const extents& shape,
                        const std::vector<double>& values) {
    auto all = make(type, shape);
    std::vector<std::uint16_t> bits;
    for (const auto value : values) {
      const auto f32 = static_cast<float>(value);
      bits.push_back(type == element_type::f16 ? sluice::f16(f32).bits : sluice::bf16(f32).bits);
    }
    if (type == element_type::f64) {
      all.set(values);
    } else if (type == element_type::f32) {
      all.set(std::vector<float>(values.begin(), values.end()));
    } else {
      all.set(bits);
    }
    return all;
  }
  std::vector<std::int64_t> integers_of(const tensor& t) {
    const auto bytes = contents_of(t);
    std::vector<std::int64_t> values;
    for_each_index(t.shape(), [&](const extents& index) {
      auto place = static_cast<std::int64_t>(t.offset() / 8);
      for (std::size_t d = 0; d < index.size(); ++d) place += index[d] * t.strides()[d];
      std::memcpy(&values.emplace_back(), &bytes[static_cast<std::size_t>(place) * 8], 8);
    });
    return values;
  }

  /// Corners (y1, x1, y2, x2).
  static std::array<long double, 4> corners(const non_maximum_suppression& op,
                                            const elements& boxes, std::int64_t batch,
                                            std::int64_t box) {
    const auto number = [&](std::int64_t i) {
      return boxes[{batch, box, i}].real();
    };
    if (op.center_point_box) {
      return {number(1) - number(3) / 2, number(0) - number(2) / 2, number(1) + number(3) / 2,
              number(0) + number(2) / 2};
    }
    return {std::min(number(0), number(2)), std::min(number(1), number(3)),
            std::max(number(0), number(2)), std::max(number(1), number(3))};
  }
  static bool overlaps(const non_maximum_suppression& op, const elements& boxes, std::int64_t batch,
                       std::int64_t i, std::int64_t j) {
    const auto a = corners(op, boxes, batch, i);
    const auto b = corners(op, boxes, batch, j);
    const auto area = [](const auto& box) {
      return std::max(box[2] - box[0], 0.0L) * std::max(box[3] - box[1], 0.0L);
    };
    const std::array common{std::max(a[0], b[0]), std::max(a[1], b[1]), std::min(a[2], b[2]),
                            std::min(a[3], b[3])};
    if (common[0] >= common[2] || common[1] >= common[3]) return false;
    const auto ratio = area(common) / (area(a) + area(b) - area(common));
    // Areas are exact in every type, and ratios are not.
    if (boxes.type() == element_type::f64) return static_cast<double>(ratio) > op.iou_threshold;
    return static_cast<float>(ratio) > static_cast<float>(op.iou_threshold);
  }
  static std::vector<selected_row> reference(const non_maximum_suppression& op,
                                             const elements& boxes, const elements& scores) {
    std::vector<selected_row> rows;
    const auto shape = scores.view().shape();
    for (std::int64_t n = 0; n < shape[0]; ++n) {
      for (std::int64_t c = 0; c < shape[1]; ++c) {
        const auto score = [&](std::int64_t i) {
          return scores[{n, c, i}].real();
        };
        std::vector<std::int64_t> order;
        for (std::int64_t i = 0; i < shape[2]; ++i) {
          const bool has_threshold = std::isfinite(op.score_threshold);
          if (has_threshold ? score(i) > op.score_threshold : !std::isnan(score(i))) {
            order.push_back(i);
          }
        }
        std::stable_sort(order.begin(), order.end(),
                         [&](auto a, auto b) { return score(a) > score(b); });
        std::vector<std::int64_t> kept;
        for (const auto i : order) {
          if (static_cast<std::int64_t>(kept.size()) == op.max_output_boxes_per_class) break;
          if (std::any_of(kept.begin(), kept.end(),
                          [&](auto j) { return overlaps(op, boxes, n, i, j); })) {
            continue;
          }
          kept.push_back(i);
          rows.push_back({n, c, i});
        }
      }
    }
    if (static_cast<std::int64_t>(rows.size()) > op.max_output_boxes) {
      rows.resize(static_cast<std::size_t>(op.max_output_boxes));
    }
    return rows;
  }

  void expect_right(non_maximum_suppression op, const elements& boxes, const elements& scores) {
    const auto shape = scores.view().shape();
    SCOPED_TRACE(std::string(to_string(boxes.type())) + " scores " + to_string(shape) + ", " +
                 std::to_string(op.max_output_boxes_per_class) + " of a class");
    op.boxes = boxes.view();
    op.scores = scores.view();
    const auto bound =
        std::min(shape[0] * shape[1] * std::min(op.max_output_boxes_per_class, shape[2]),
                 op.max_output_boxes);
    const auto selected = make(element_type::i64, {bound, 3});
    const bool has_output = coin();
    if (has_output) op.selected = selected.view();
    const auto results = run(test_executor(), op);
    ASSERT_EQ(results.size(), 2U);
    ASSERT_EQ(results[0].shape(), (extents{bound, 3}));
    ASSERT_EQ(results[1].shape(), (extents{1}));
    const auto wanted = reference(op, boxes, scores);
    ASSERT_EQ(integers_of(results[1])[0], std::ssize(wanted));
    const auto found = integers_of(results[0]);
    for (std::size_t row = 0; row < found.size() / 3; ++row) {
      for (std::size_t k = 0; k < 3; ++k) {
        ASSERT_EQ(found[row * 3 + k], row < wanted.size() ? wanted[row][k] : -1)
            << "number " << k << " of row " << row;
      }
    }
    if (has_output) expect_gaps_untouched(selected);
  }

  /// Boxes and scores of which many are equal. All numbers are multiples of 1/8, which all types
  /// hold and compute exactly.
  std::pair<elements, elements> draw(element_type type, const extents& shape) {
    std::vector<double> numbers;
    for (std::int64_t i = 0; i < shape[0] * shape[2] * 4 + 997; ++i) {
      numbers.push_back(static_cast<double>(between(0, 32)) / 8);
    }
    std::vector<double> scores;
    for (std::int64_t i = 0; i < shape[0] * shape[1] * shape[2] + 997; ++i) {
      scores.push_back(static_cast<double>(between(-8, 24)) / 8);
      if (between(0, 20) == 0) scores.back() = std::numeric_limits<double>::quiet_NaN();
    }
    return {make_numbers(type, {shape[0], shape[2], 4}, numbers),
            make_numbers(type, shape, scores)};
  }
};

TEST_P(suppressions, of_all_types_and_shapes) {
  for (const auto type : real_types) {
    for (int round = 0; round < 20; ++round) {
      const extents shape{between(1, 3), between(1, 3), between(1, 40)};
      const auto [boxes, scores] = draw(type, shape);
      non_maximum_suppression op{.max_output_boxes_per_class = between(1, 30),
                                 .iou_threshold = static_cast<double>(between(0, 99)) / 101,
                                 .center_point_box = coin()};
      if (coin()) op.score_threshold = static_cast<double>(between(-4, 16)) / 8;
      if (coin()) op.max_output_boxes = between(0, 60);
      expect_right(op, boxes, scores);
    }
  }
}

TEST_P(suppressions, of_many_boxes_and_classes) {
  {
    const auto [boxes, scores] = draw(element_type::f32, {1, 2, 3001});
    expect_right({.max_output_boxes_per_class = 5000, .iou_threshold = 0.3}, boxes, scores);
  }
  {
    const auto [boxes, scores] = draw(element_type::f16, {3, 701, 3});
    expect_right({.max_output_boxes_per_class = 2, .iou_threshold = 0.5}, boxes, scores);
  }
}

TEST_P(suppressions, of_nothing) {
  const auto none = [&](const extents& shape, std::int64_t most_of_class) {
    const auto boxes = make(element_type::f32, {shape[0], shape[2], 4});
    const auto scores = make(element_type::f32, shape);
    expect_right({.max_output_boxes_per_class = most_of_class}, boxes, scores);
  };
  none({2, 3, 4}, 0);
  none({2, 3, 0}, 4);
  none({0, 3, 5}, 4);
  none({2, 0, 5}, 4);
}

// The example `suppress_by_IOU` of the specification of ONNX.
TEST_P(suppressions, give_the_boxes_of_the_specification) {
  auto boxes = make_contiguous(element_type::f32, {1, 6, 4});
  boxes.set(std::vector<float>{0, 0,  1, 1,  0, 0.1F,  1, 1.1F,  0, -0.1F, 1, 0.9F,
                               0, 10, 1, 11, 0, 10.1F, 1, 11.1F, 0, 100,   1, 101});
  auto scores = make_contiguous(element_type::f32, {1, 1, 6});
  scores.set(std::vector<float>{0.9F, 0.75F, 0.6F, 0.95F, 0.5F, 0.3F});
  const auto results = run(test_executor(), non_maximum_suppression{.boxes = boxes.view(),
                                                                    .scores = scores.view(),
                                                                    .max_output_boxes_per_class = 4,
                                                                    .iou_threshold = 0.5,
                                                                    .score_threshold = 0});
  EXPECT_EQ(integers_of(results[0]),
            (std::vector<std::int64_t>{0, 0, 3, 0, 0, 0, 0, 0, 5, -1, -1, -1}));
  EXPECT_EQ(integers_of(results[1]), std::vector<std::int64_t>{3});
}

TEST_P(suppressions, are_steps_with_two_results) {
  const auto [boxes, scores] = draw(element_type::f32, {2, 2, 30});
  program_builder p;
  const auto step = p.add("best", non_maximum_suppression{.boxes = p.input("boxes"),
                                                          .scores = p.input("scores"),
                                                          .max_output_boxes_per_class = 5,
                                                          .iou_threshold = 0.4});
  const program best =
      std::move(p).build({step[0], step[1]}, {.capture = capture_policy::at_prepare});
  const auto alone = run(test_executor(), non_maximum_suppression{.boxes = boxes.view(),
                                                                  .scores = scores.view(),
                                                                  .max_output_boxes_per_class = 5,
                                                                  .iou_threshold = 0.4});
  const auto results = run(test_executor(), sluice::run{best, {boxes.view(), scores.view()}});
  EXPECT_EQ(integers_of(results[0]), integers_of(alone[0]));
  EXPECT_EQ(integers_of(results[1]), integers_of(alone[1]));
}

TEST_P(suppressions, refuse_what_does_not_fit) {
  const non_maximum_suppression valid{.boxes = make(element_type::f32, {2, 5, 4}).view(),
                                      .scores = make(element_type::f32, {2, 3, 5}).view(),
                                      .max_output_boxes_per_class = 2};
  const auto refuse = [&](const std::string& text, auto change) {
    auto operation = valid;
    change(operation);
    EXPECT_TRUE(
        throws(errc::invalid_argument, text, [&] { (void)run(test_executor(), operation); }));
  };
  refuse("boxes: is not given", [](auto& o) { o.boxes = {}; });
  refuse("scores: is not given", [](auto& o) { o.scores = {}; });
  refuse("boxes: is of type i32", [&](auto& o) {
    o.boxes = make(element_type::i32, {2, 5, 4}).view();
  });
  refuse("scores: is of type f64", [&](auto& o) {
    o.scores = make(element_type::f64, {2, 3, 5}).view();
  });
  refuse("boxes: has the shape [2, 5, 5]", [&](auto& o) {
    o.boxes = make(element_type::f32, {2, 5, 5}).view();
  });
  refuse("scores: has the shape [2, 3, 6]", [&](auto& o) {
    o.scores = make(element_type::f32, {2, 3, 6}).view();
  });
  refuse("max_output_boxes_per_class: -1", [](auto& o) { o.max_output_boxes_per_class = -1; });
  refuse("max_output_boxes: -1", [](auto& o) { o.max_output_boxes = -1; });
  refuse("iou_threshold: is not", [](auto& o) { o.iou_threshold = 1.5; });
  refuse("iou_threshold: is not", [](auto& o) { o.iou_threshold = NAN; });
  refuse("score_threshold: is NaN", [](auto& o) { o.score_threshold = NAN; });
  refuse("selected: has the shape", [&](auto& o) {
    o.selected = make(element_type::i64, {11, 3}).view();
  });
  refuse("count: is of type i32", [&](auto& o) { o.count = make(element_type::i32, {1}).view(); });
}

INSTANTIATE_TEST_SUITE_P(devices, suppressions, every_device(), parameter_name);

}  // namespace
}  // namespace sluice::test
