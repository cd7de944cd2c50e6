// SPDX-License-Identifier: Apache-2.0
// Actors on the second GPU make no context on the first, which would take half a gigabyte of it; a
// process of its own says so.
#include "tests/actors/library_actor_test.hpp"
#include "tests/envelope/completion_strategies.hpp"
#include "tests/support/forked_child.hpp"
#include "tests/support/gpu_context.hpp"

namespace sluice::test {
namespace {

[[noreturn]] void use_the_second(completion_strategy completion) {
  {
    session s(open_device("cuda:1"), completion);
    for (const auto& kind : library_kinds()) {
      SCOPED_TRACE(kind.name);
      const auto actor = kind.start(s, nullptr);
      const auto request = kind.make(s, {});
      expect_right(s, request, s.ask_all<ref>(actor, {request.request})[0]);
      EXPECT_FALSE(has_context(0));
      s.end(actor);
    }
    s.expect_nothing_left();
  }
  EXPECT_TRUE(has_context(1));
  EXPECT_FALSE(has_context(0));
  end_child();
}

class second_gpu : public ::testing::TestWithParam<completion_strategy> {};

TEST_P(second_gpu, is_the_only_one_that_its_actors_use) {
  if (!has_device("cuda:1")) GTEST_SKIP() << "this machine has no second GPU";
  EXPECT_EXIT(use_the_second(GetParam()), ::testing::ExitedWithCode(0), "^$");
}

INSTANTIATE_TEST_SUITE_P(cuda, second_gpu, every_strategy(), name_of_strategy);

}  // namespace
}  // namespace sluice::test
