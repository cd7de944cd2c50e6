// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/actors/library_kinds.hpp"
#include "tests/actors/session.hpp"
#include "tests/support/relative_error.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <tuple>
#include <vector>

namespace sluice::test {

using ref = gpu_ref<float>;

inline std::vector<std::size_t> every_kind() {
  std::vector<std::size_t> numbers(library_kinds().size());
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = i;
  return numbers;
}

/// Returns once `actor` has handled everything that was sent to it before: launched it, or put it
/// behind what fills its lane.
inline void wait_until_handled(session& s, const caf::actor& actor) {
  caf::scoped_actor self{s.system()};
  request(self, actor, caf::infinite, sluice::detail::wake{})
      .receive([] {}, [](const caf::error&) {});
}

/// The same for the requests of `to`.
inline void wait_until_handled(session& s, const caf::actor& actor, const answers<ref>& replies) {
  replies.wait_until_sent();
  wait_until_handled(s, actor);
}

inline void expect_right(session& s, const sample& expected, const answer<ref>& got) {
  ASSERT_TRUE(succeeded(got));
  if (expected.output) {
    EXPECT_EQ(*got.value, expected.output);
  }
  EXPECT_LE(relative_error(s.get(*got.value), expected.expected), expected.bound);
}

/// A sample with a given output, whose request has been served once before, so that all of its
/// kernels are loaded; see `session::hold`.
inline sample make_to_be_held(session& s, const library_kind& kind, const caf::actor& actor,
                              reply_on when = reply_on::finished) {
  auto result =
      kind.make(s, {.output_given = true, .reply = when, .bits = result_bits::as_if_alone});
  EXPECT_TRUE(succeeded(s.ask_all<ref>(actor, {result.request})[0]));
  s.put_into(result.output, result.output_before);
  s.settle();
  return result;
}

/// Each request is answered once, whatever became of it.
inline void expect_one_reply_each(session& s, const answers<ref>& replies, std::size_t requests) {
  s.settle();
  EXPECT_EQ(replies.answered(), requests);
  EXPECT_EQ(replies.replies(), requests);
}

}  // namespace sluice::test
