// SPDX-License-Identifier: Apache-2.0
#include "tools/io/bar_chart.hpp"

#include "tests/support/expect_error.hpp"
#include "tests/tools/io/files.hpp"

#include <sluice/runtime/error.hpp>

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

namespace sluice::io {
namespace {

bar_row row(std::string label, std::vector<bar> bars, bool is_reference = false) {
  return {.label = std::move(label), .is_reference = is_reference, .bars = std::move(bars)};
}

bar_chart chart_of(std::vector<bar_row> rows, std::vector<std::string> units = {"us"}) {
  return {.title = "a chart", .panels = {{"a panel", std::move(units), std::move(rows)}}};
}

/// The pixels of a bar from the left that are not white, in the row of pixels at its upper edge,
/// which the line of the spread does not touch.
int length_of(const picture& drawn, const area& place) {
  int length = 0;
  while (length < place.width && drawn.at(place.x + length, place.y) == drawn.at(place.x, place.y))
    ++length;
  return drawn.at(place.x, place.y) == white ? 0 : length;
}

TEST(BarChart, LengthsAreProportional) {
  const auto shown = chart_of({row("one", {{4, 4, 4}}), row("two", {{1, 1, 1}}),
                               row("three", {{2, 1, 3}}), row("none", {{0, 0, 0}})});
  const auto areas = bar_areas(shown).at(0);
  const picture drawn = draw_bar_chart(shown);
  const int width = areas[0][0].width;
  EXPECT_EQ(length_of(drawn, areas[0][0]), width);
  EXPECT_NEAR(length_of(drawn, areas[1][0]), width / 4, 1);
  EXPECT_NEAR(length_of(drawn, areas[2][0]), width / 2, 1);
  EXPECT_LE(length_of(drawn, areas[3][0]), 1);
  // The spread of the third: a line at half the height of the bar, with an end at 1 and one at 3.
  const area& third = areas[2][0];
  const int middle = third.y + third.height / 2;
  EXPECT_EQ(drawn.at(third.x + width / 4, middle - 3), black);
  EXPECT_EQ(drawn.at(third.x + 3 * width / 4, middle - 3), black);
  EXPECT_EQ(drawn.at(third.x + width / 2 + 20, middle), black);
  EXPECT_NE(drawn.at(third.x + width / 4 - 3, middle), black);
}

TEST(BarChart, ASpreadMayExceedTheBars) {
  const auto shown = chart_of({row("one", {{1, 1, 10}})});
  const auto areas = bar_areas(shown);
  EXPECT_NEAR(length_of(draw_bar_chart(shown), areas[0][0][0]), areas[0][0][0].width / 10, 1);
}

TEST(BarChart, ColumnsAndPanelsHaveTheirOwnScales) {
  bar_chart shown = chart_of({row("reference", {{100, 100, 100}, {1, 1, 1}}, true),
                              row("other", {{50, 50, 50}, {2, 2, 2}})},
                             {"us", "times as fast"});
  shown.panels.push_back(shown.panels.front());
  shown.panels[1].rows.pop_back();
  shown.lines = {"a line", "another"};
  const auto areas = bar_areas(shown);
  const picture drawn = draw_bar_chart(shown);
  ASSERT_EQ(areas.size(), 2U);
  ASSERT_EQ(areas[0].size(), 2U);
  ASSERT_EQ(areas[1].size(), 1U);
  const int width = areas[0][0][0].width;
  EXPECT_EQ(length_of(drawn, areas[0][0][0]), width);
  EXPECT_NEAR(length_of(drawn, areas[0][1][0]), width / 2, 1);
  EXPECT_NEAR(length_of(drawn, areas[0][0][1]), width / 2, 1);
  EXPECT_EQ(length_of(drawn, areas[0][1][1]), width);
  EXPECT_EQ(length_of(drawn, areas[1][0][1]), width);
  // A reference differs in its colour.
  EXPECT_NE(drawn.at(areas[0][0][0].x, areas[0][0][0].y),
            drawn.at(areas[0][1][0].x, areas[0][1][0].y));
  // Areas lie inside the picture and apart.
  EXPECT_GT(areas[0][0][1].x, areas[0][0][0].x + width);
  EXPECT_GT(areas[0][1][0].y, areas[0][0][0].y + areas[0][0][0].height);
  EXPECT_GT(areas[1][0][0].y, areas[0][1][0].y + areas[0][1][0].height);
  EXPECT_LT(areas[1][0][1].x + width, drawn.width());
  EXPECT_LT(areas[1][0][1].y + areas[1][0][1].height, drawn.height());
}

TEST(BarChart, ValuesWithoutABar) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinite = std::numeric_limits<double>::infinity();
  const auto shown =
      chart_of({row("nan", {{nan, nan, nan}}), row("infinite", {{infinite, 1, infinite}}),
                row("negative", {{-3, -4, -2}}), row("one", {{1, nan, infinite}})});
  const auto areas = bar_areas(shown)[0];
  const picture drawn = draw_bar_chart(shown);
  for (const std::size_t without : {0, 1, 2})
    EXPECT_LE(length_of(drawn, areas[without][0]), 1) << without;
  EXPECT_EQ(length_of(drawn, areas[3][0]), areas[3][0].width);
  const double largest = std::numeric_limits<double>::max();
  for (const double value : {nan, 0.0, -1.0, largest, std::numeric_limits<double>::denorm_min()})
    EXPECT_FALSE(draw_bar_chart(chart_of({row("", {{value, value, value}})})).png().empty());
}

TEST(BarChart, LongLabelsDoNotWidenIt) {
  const auto usual = draw_bar_chart(chart_of({row("x", {{1, 1, 1}})}));
  auto shown = chart_of({row(std::string(400, 'W'), {{1, 1, 1}})});
  shown.panels[0].rows[0].note = std::string(400, 'W');
  shown.panels[0].title = shown.title = std::string(4000, 'W');
  const auto place = bar_areas(shown)[0][0][0];
  const auto drawn = draw_bar_chart(shown);
  EXPECT_EQ(drawn.width(), usual.width());
  EXPECT_EQ(drawn.height(), usual.height());
  for (int y = place.y; y < place.y + place.height; ++y)
    EXPECT_EQ(drawn.at(place.x - 4, y), white) << y;
}

TEST(BarChart, RefusesChartsWithoutBars) {
  const auto refuse = [](const bar_chart& shown, std::string_view text) {
    test::expect_error(errc::invalid_argument, "bar chart", text,
                       [&] { return draw_bar_chart(shown); });
  };
  refuse({}, "at least one panel");
  refuse(chart_of({}), "at least one row");
  refuse(chart_of({row("x", {})}, {}), "at least one row and unit");
  refuse(chart_of({row("x", {{1, 1, 1}})}, {"us", "times as fast"}), "a bar for each unit");
}

}  // namespace
}  // namespace sluice::io
