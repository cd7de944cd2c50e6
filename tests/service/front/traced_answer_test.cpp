// SPDX-License-Identifier: Apache-2.0
// The lines of traced requests in the log.
#include "service/front/traced_answer.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace sluice::service {
namespace {

/// What the answers of so many requests write to the log.
std::string log_of(int requests, const run_result& result) {
  ::testing::internal::CaptureStderr();
  int answers = 0;
  for (int i = 0; i < requests; ++i) {
    traced_answer([&](const run_result&) { ++answers; }, {.trace = "4bf9", .span = "00f0"},
                  "m")(result);
  }
  EXPECT_EQ(answers, requests);
  return ::testing::internal::GetCapturedStderr();
}

TEST(traced_answer, writes_times_and_errors) {
  run_result result{.version = "3"};
  result.statistics = {.queue_ns = 12'345, .compute_ns = 6'789'000, .batch = 4};
  auto text = log_of(1, result);
  EXPECT_NE(
      text.find("request computed, trace_id=4bf9 parent_id=00f0 model=m version=3 request_us="),
      std::string::npos)
      << text;
  EXPECT_NE(text.find(" queue_us=12 launch_us=6789 batch=4"), std::string::npos) << text;
  text = log_of(1, {.error = request_error(request_status::unavailable, "no worker")});
  EXPECT_NE(text.find("request failed, trace_id=4bf9 parent_id=00f0 model=m request_us="),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("problem=\"no worker\""), std::string::npos) << text;
}

TEST(traced_answer, writes_a_bounded_number_of_lines) {
  const auto text = log_of(1'000'000, {});
  const auto lines = std::count(text.begin(), text.end(), '\n');
  // A second begins while so many requests are answered, perhaps several do.
  EXPECT_GE(lines, 1);
  EXPECT_LT(lines, 100'000);
}

}  // namespace
}  // namespace sluice::service
