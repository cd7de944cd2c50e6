// SPDX-License-Identifier: Apache-2.0
// The field `traceparent`.
#include "service/protocol/trace_context.hpp"

#include "tests/support/seed.hpp"

#include <gtest/gtest.h>

#include <string>

namespace sluice::service {
namespace {

const std::string trace = "4bf92f3577b34da6a3ce929d0e0e4736";
const std::string span = "00f067aa0ba902b7";

TEST(trace_context, is_read) {
  const auto context = parse_trace_parent("00-" + trace + "-" + span + "-01");
  ASSERT_TRUE(context);
  EXPECT_EQ(context->trace, trace);
  EXPECT_EQ(context->span, span);
  EXPECT_TRUE(context->is_sampled);
  EXPECT_FALSE(parse_trace_parent("00-" + trace + "-" + span + "-fe")->is_sampled);
  EXPECT_TRUE(parse_trace_parent("01-" + trace + "-" + span + "-03-more")->is_sampled);
}

TEST(trace_context, is_none_if_it_is_malformed) {
  const std::string good = "00-" + trace + "-" + span + "-01";
  for (const auto& text :
       {std::string(), good.substr(1), good + "-", good + "-more", good.substr(0, 54),
        "ff" + good.substr(2), "01" + good.substr(2) + "more",
        "00-" + std::string(32, '0') + "-" + span + "-01",
        "00-" + trace + "-" + std::string(16, '0') + "-01"}) {
    EXPECT_FALSE(parse_trace_parent(text)) << text;
  }
  auto random = sluice::test::make_generator();
  for (int i = 0; i < 1000; ++i) {
    auto text = good;
    const auto place = random() % text.size();
    const char other = "AF-/:`g \n"[random() % 9];
    if (text[place] == other) continue;
    text[place] = other;
    EXPECT_FALSE(parse_trace_parent(text)) << text;
  }
}

}  // namespace
}  // namespace sluice::service
