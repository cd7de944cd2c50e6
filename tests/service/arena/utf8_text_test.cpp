// SPDX-License-Identifier: Apache-2.0
#include "service/arena/utf8_text.hpp"

#include <gtest/gtest.h>

#include <string>

namespace sluice::service {
namespace {

const std::string mark = "\xef\xbf\xbd";

TEST(utf8_text, keeps_characters_of_all_lengths) {
  for (const std::string& text :
       {std::string(), std::string("a\0b", 3), std::string("\xc2\x80\xdf\xbf"),
        std::string("\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80\xef\xbf\xbf"),
        std::string("\xf0\x90\x80\x80\xf4\x8f\xbf\xbf")}) {
    EXPECT_EQ(valid_utf8(text), text);
  }
}

TEST(utf8_text, replaces_each_byte_of_no_character) {
  EXPECT_EQ(valid_utf8("a\x80z"), "a" + mark + "z");
  EXPECT_EQ(valid_utf8("\xc0\xaf"), mark + mark);  // longer than necessary
  EXPECT_EQ(valid_utf8("\xe0\x9f\xbf"), mark + mark + mark);
  EXPECT_EQ(valid_utf8("\xed\xa0\x80"), mark + mark + mark);  // a surrogate
  EXPECT_EQ(valid_utf8("\xf0\x8f\xbf\xbf"), mark + mark + mark + mark);
  EXPECT_EQ(valid_utf8("\xf4\x90\x80\x80"), mark + mark + mark + mark);  // beyond the last
  EXPECT_EQ(valid_utf8("\xf5"), mark);
  EXPECT_EQ(valid_utf8("x\xe2\x82"), "x" + mark + mark);  // cut
  EXPECT_EQ(valid_utf8("\xe2\x82\xe2\x82\xac"), mark + mark + "\xe2\x82\xac");
}

}  // namespace
}  // namespace sluice::service
