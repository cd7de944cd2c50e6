// SPDX-License-Identifier: Apache-2.0
#include "tools/io/timeline_picture.hpp"

#include "tests/support/expect_error.hpp"

#include <sluice/runtime/error.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <limits>
#include <vector>

namespace sluice::io {
namespace {

TEST(TimelinePicture, BoxesAreWhereTheirTimesAre) {
  const timeline_view view{"a timeline",
                           {{"first", {{"", 10, 12}, {"", 14, 15}}}, {"second", {{"", 12, 20}}}}};
  const auto extent = extent_of(view);
  EXPECT_EQ(extent.begin, 10);
  EXPECT_EQ(extent.length, 10);
  const picture drawn = draw_timeline(view);
  const auto pixel = [&](std::size_t row, double time) {
    const area frame = row_area(row);
    return drawn.at(frame.x + static_cast<int>((time - 10) / 10 * (frame.width - 1)),
                    frame.y + frame.height / 2);
  };
  for (const double time : {10.1, 11.0, 11.9, 14.1, 14.9}) EXPECT_NE(pixel(0, time), white) << time;
  for (const double time : {12.1, 13.9, 15.1, 19.9}) EXPECT_EQ(pixel(0, time), white) << time;
  for (const double time : {10.1, 11.9}) EXPECT_EQ(pixel(1, time), white) << time;
  for (const double time : {12.1, 19.9}) EXPECT_NE(pixel(1, time), white) << time;
}

TEST(TimelinePicture, EqualLabelsHaveEqualColours) {
  const timeline_view view{"", {{"", {{"a", 0, 1}, {"b", 1, 2}, {"a", 2, 3}}}}};
  const picture drawn = draw_timeline(view);
  const area frame = row_area(0);
  const auto corner = [&](int third) {
    return drawn.at(frame.x + third * frame.width / 3 + 4, frame.y + 1);
  };
  EXPECT_EQ(corner(0), corner(2));
  EXPECT_NE(corner(0), corner(1));
}

TEST(TimelinePicture, AShortSpanIsSeen) {
  const picture drawn = draw_timeline({"", {{"", {{"a", 0, 1}, {"b", 2, 2}, {"c", 3, 4}}}}});
  const area frame = row_area(0);
  int coloured = 0;
  for (int x = frame.width * 3 / 8; x < frame.width * 5 / 8; ++x)
    coloured += drawn.at(frame.x + x, frame.y) == white ? 0 : 1;
  EXPECT_EQ(coloured, 1);
}

TEST(TimelinePicture, NeedsTimes) {
  const double infinity = std::numeric_limits<double>::infinity();
  for (const auto& spans : std::vector<std::vector<timeline_span>>{
           {}, {{"", 1, 1}}, {{"", 0, infinity}}, {{"", -infinity, 0}}})
    EXPECT_TRUE(test::throws(errc::invalid_argument, "timeline", [&] {
      (void)draw_timeline({"", {{"", spans}}});
    }));
}

}  // namespace
}  // namespace sluice::io
