// SPDX-License-Identifier: Apache-2.0
#include "tools/io/picture.hpp"

#include "tests/tools/io/decode_png.hpp"
#include "tests/tools/io/files.hpp"

#include <sluice/runtime/error.hpp>

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <signal.h>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice::io {
namespace {

using test::expect_error;

constexpr colour red{200, 10, 30};
constexpr colour green{1, 150, 2};

/// The smallest area that has all pixels that are not white.
area inked(const picture& shown) {
  int left = shown.width();
  int top = shown.height();
  int right = 0;
  int bottom = 0;
  for (int y = 0; y < shown.height(); ++y)
    for (int x = 0; x < shown.width(); ++x) {
      if (shown.at(x, y) == white) continue;
      left = std::min(left, x);
      top = std::min(top, y);
      right = std::max(right, x + 1);
      bottom = std::max(bottom, y + 1);
    }
  return right == 0 ? area{} : area{left, top, right - left, bottom - top};
}

picture with_text(std::string_view text, const text_style& style = {}) {
  picture shown(300, 300);
  shown.write(text, 150, 150, style);
  return shown;
}

TEST(Picture, BeginsWhite) {
  const picture shown(3, 2);
  EXPECT_EQ(shown.width(), 3);
  EXPECT_EQ(shown.height(), 2);
  EXPECT_EQ(inked(shown), area{});
  EXPECT_EQ(shown.at(2, 1), white);
}

TEST(Picture, FillsRectangles) {
  picture shown(10, 8);
  shown.fill({2, 3, 4, 2}, red);
  EXPECT_EQ(inked(shown), (area{2, 3, 4, 2}));
  EXPECT_EQ(shown.at(2, 3), red);
  EXPECT_EQ(shown.at(5, 4), red);
  shown.fill({3, 4, 2, 3}, [](int x, int y) { return x == 0 && y == 1 ? green : red; });
  EXPECT_EQ(inked(shown), (area{2, 3, 4, 4}));
  EXPECT_EQ(shown.at(3, 5), green);
  EXPECT_EQ(shown.at(3, 4), red);
}

TEST(Picture, LeavesOutWhatIsOutside) {
  picture shown(4, 4);
  shown.fill({-2, -2, 3, 3}, red);
  EXPECT_EQ(inked(shown), (area{0, 0, 1, 1}));
  shown.fill({3, 1, 5, 1}, red);
  EXPECT_EQ(inked(shown), (area{0, 0, 4, 2}));
  for (const area outside :
       {area{4, 0, 2, 2}, area{0, -3, 2, 2}, area{1, 3, 2, 0}, area{1, 3, -2, 1}})
    shown.fill(outside, red);
  EXPECT_EQ(inked(shown), (area{0, 0, 4, 2}));
  shown.write("outside", 1e9, -1e9);
  EXPECT_EQ(inked(shown), (area{0, 0, 4, 2}));
}

TEST(Picture, PlacesTexts) {
  const area before = inked(with_text("0.5", {.align = 1}));
  const area around = inked(with_text("0.5", {.align = 0.5}));
  const area after = inked(with_text("0.5"));
  for (const area& found : {before, around, after}) {
    EXPECT_NEAR(found.y + found.height / 2.0, 150, 2);
    EXPECT_GT(found.height, 6);
  }
  EXPECT_LE(before.x + before.width, 151);
  EXPECT_NEAR(around.x + around.width / 2.0, 150, 2);
  EXPECT_GE(after.x, 149);
  const area upward = inked(with_text("0.5", {.align = 0.5, .upward = true}));
  EXPECT_NEAR(upward.x + upward.width / 2.0, 150, 2);
  EXPECT_NEAR(upward.height, around.width, 2);
  EXPECT_GT(inked(with_text("0.5", {.size = 30})).height, after.height + 6);
}

TEST(Picture, ShrinksLongTexts) {
  const std::string text(255, 'm');
  for (const double longest : {100.0, 20.0}) {
    const area found = inked(with_text(text, {.longest = longest}));
    EXPECT_GE(found.x, 149);
    EXPECT_LE(found.x + found.width, 151 + longest);
  }
}

TEST(Picture, ShowsAQuestionMarkForWhatTheFontLacks) {
  EXPECT_EQ(with_text("Gr\u00fc\u00dfe").png(), with_text("Gr??e").png());
  EXPECT_EQ(with_text("a\nb").png(), with_text("a?b").png());
  EXPECT_EQ(with_text("a\xffz").png(), with_text("a?z").png());
  EXPECT_EQ(with_text("a\xe2\x82").png(), with_text("a?").png());
  EXPECT_NE(with_text("a").png(), with_text("b").png());
  EXPECT_EQ(inked(with_text("")), area{});
}

TEST(Picture, SurvivesItsFile) {
  picture shown = with_text("a text");
  shown.fill({5, 6, 40, 50}, [](int x, int y) {
    return colour{static_cast<std::uint8_t>(x), static_cast<std::uint8_t>(y), 77};
  });
  const picture decoded = test::decode_png(shown.png());
  ASSERT_EQ(decoded.width(), shown.width());
  ASSERT_EQ(decoded.height(), shown.height());
  std::size_t different = 0;
  for (int y = 0; y < shown.height(); ++y)
    for (int x = 0; x < shown.width(); ++x) different += decoded.at(x, y) == shown.at(x, y) ? 0 : 1;
  EXPECT_EQ(different, 0U);
}

TEST(Picture, RefusesSizes) {
  for (const auto& [width, height] :
       std::vector<std::pair<int, int>>{{0, 5}, {5, 0}, {-1, 5}, {32768, 1}, {1, 32768}})
    expect_error(errc::invalid_argument, "picture", "pixels are not possible",
                 [w = width, h = height] { return picture(w, h); });
  EXPECT_FALSE(picture(32767, 1).png().empty());
}

TEST(Picture, IsSavedAsAnOutputFile) {
  const test::temporary_folder folder;
  const picture shown(4, 4);
  shown.save(folder / "x.png");
  EXPECT_EQ(test::read_text(folder / "x.png").substr(0, 4), "\x89PNG");
  EXPECT_EQ(folder.entries(), 1);
  expect_error(errc::invalid_argument, "nowhere", "",
               [&] { shown.save(folder / "nowhere/x.png"); });
  expect_error(errc::invalid_argument, folder.path().string(), "",
               [&] { shown.save(folder.path()); });
}

TEST(Picture, LeavesAnEarlierFileIfTheDiskIsFull) {
  const test::temporary_folder folder;
  test::write_text(folder / "x.png", "before");
  const picture shown = with_text("some text");
  rlimit previous{};
  ::getrlimit(RLIMIT_FSIZE, &previous);
  rlimit limit = previous;
  limit.rlim_cur = 10;
  auto* const handler = ::signal(SIGXFSZ, SIG_IGN);
  ::setrlimit(RLIMIT_FSIZE, &limit);
  const auto thrown = test::error_of([&] { shown.save(folder / "x.png"); });
  ::setrlimit(RLIMIT_FSIZE, &previous);
  ::signal(SIGXFSZ, handler);
  ASSERT_TRUE(thrown);
  EXPECT_EQ(thrown->code(), errc::library_failure);
  EXPECT_EQ(test::read_text(folder / "x.png"), "before");
  EXPECT_EQ(folder.entries(), 1);
}

}  // namespace
}  // namespace sluice::io
