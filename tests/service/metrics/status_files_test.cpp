// SPDX-License-Identifier: Apache-2.0
#include "service/metrics/status_files.hpp"

#include <gtest/gtest.h>

#include <regex>
#include <stdexcept>
#include <string>

namespace sluice::service {
namespace {

std::string text_of(const char* name) {
  return std::string(status_file(name));
}

TEST(status_files, have_no_other_file) {
  EXPECT_THROW((void)status_file("../status.js"), std::out_of_range);
  EXPECT_THROW((void)status_file(""), std::out_of_range);
}

// The policy of the page forbids it, so it would not work.
TEST(status_files, have_nothing_inline_and_nothing_from_elsewhere) {
  const auto page = text_of("status.html");
  EXPECT_NE(page.find("status.js"), std::string::npos);
  EXPECT_FALSE(
      std::regex_search(page, std::regex("<script(?![^>]*src=)|<style|style=| on[a-z]+=")));
  for (const char* name : {"status.html", "status.css"}) {
    EXPECT_EQ(text_of(name).find("//"), std::string::npos) << name;
  }
}

TEST(status_files, have_a_script_that_makes_no_markup_of_text) {
  const auto script = text_of("status.js");
  const std::regex markup(
      "innerHTML|outerHTML|insertAdjacentHTML|document\\.write|DOMParser|eval|Function\\(|"
      "setHTML|createContextualFragment|javascript:");
  EXPECT_FALSE(std::regex_search(script, markup));
  EXPECT_TRUE(std::regex_search("a.innerHTML = b", markup));
}

}  // namespace
}  // namespace sluice::service
