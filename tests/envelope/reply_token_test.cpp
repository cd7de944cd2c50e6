// SPDX-License-Identifier: Apache-2.0
#include <sluice/envelope/reply_token.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace {

using namespace sluice;

/// The calls that a receiver has received.
struct seen {
  std::atomic<int> values{0};
  std::atomic<int> errors{0};
  std::optional<errc> code;
};

class counting final : public reply_token<int>::receiver {
 public:
  explicit counting(std::shared_ptr<seen> s) : record_(std::move(s)) {}
  void succeed(int) noexcept override { ++record_->values; }
  void fail(const error& why) noexcept override {
    record_->code = why.code();
    ++record_->errors;
  }

 private:
  std::shared_ptr<seen> record_;
};

TEST(reply_token, hands_over_a_value) {
  auto s = std::make_shared<seen>();
  const auto token = reply_token<int>::make<counting>(s);
  EXPECT_TRUE(token);
  EXPECT_FALSE(token.answered());
  EXPECT_TRUE(token.succeed(1));
  EXPECT_TRUE(token.answered());
  EXPECT_EQ(s->values, 1);
  EXPECT_EQ(s->errors, 0);
}

TEST(reply_token, drops_every_answer_but_the_first) {
  auto s = std::make_shared<seen>();
  {
    const auto token = reply_token<int>::make<counting>(s);
    const auto copy = token;
    EXPECT_TRUE(copy.fail(error(errc::overloaded, "late")));
    EXPECT_TRUE(token.answered());
    EXPECT_FALSE(token.succeed(1));
    EXPECT_FALSE(token.fail(error(errc::cancelled, "again")));
  }
  EXPECT_EQ(s->values, 0);
  EXPECT_EQ(s->errors, 1);
  EXPECT_EQ(s->code, errc::overloaded);
}

TEST(reply_token, answers_cancelled_when_the_last_copy_is_dropped) {
  auto s = std::make_shared<seen>();
  auto token = reply_token<int>::make<counting>(s);
  auto copy = token;
  token = {};
  EXPECT_EQ(s->errors, 0);
  copy = {};
  EXPECT_EQ(s->errors, 1);
  EXPECT_EQ(s->code, errc::cancelled);
}

TEST(reply_token, an_empty_one_answers_nobody) {
  const reply_token<int> token;
  EXPECT_FALSE(token);
  EXPECT_TRUE(token.answered());
  EXPECT_FALSE(token.succeed(1));
  EXPECT_FALSE(token.fail(error(errc::cancelled, "nobody")));
}

TEST(reply_token, carries_values_that_cannot_be_copied) {
  std::string got;
  const auto token = reply_token<std::unique_ptr<std::string>>::from(
      [&](std::unique_ptr<std::string> value) { got = *value; }, [](const error&) {});
  EXPECT_TRUE(token.succeed(std::make_unique<std::string>("moved")));
  EXPECT_EQ(got, "moved");
}

TEST(reply_token, answers_once_under_racing_threads) {
  constexpr int threads = 6;
  for (int round = 0; round < 300; ++round) {
    auto s = std::make_shared<seen>();
    auto token = reply_token<int>::make<counting>(s);
    std::latch start(threads);
    std::atomic<int> first{0};
    std::vector<std::thread> racing;
    for (int t = 0; t < threads; ++t) {
      racing.emplace_back([&, t, mine = token]() mutable {
        start.arrive_and_wait();
        // A result, an error and a drop race with each other.
        if (t % 3 == 0 && mine.succeed(t)) ++first;
        if (t % 3 == 1 && mine.fail(error(errc::overloaded, "late"))) ++first;
        mine = {};
      });
    }
    token = {};
    for (auto& t : racing) t.join();
    EXPECT_EQ(s->values + s->errors, 1);
    EXPECT_EQ(first, 1);
  }
}

TEST(reply_token, answers_once_when_all_copies_are_dropped_at_once) {
  for (int round = 0; round < 300; ++round) {
    auto s = std::make_shared<seen>();
    auto token = reply_token<int>::make<counting>(s);
    std::latch start(3);
    std::vector<std::thread> racing;
    for (int t = 0; t < 3; ++t) {
      racing.emplace_back([&, mine = token]() mutable {
        start.arrive_and_wait();
        mine = {};
      });
    }
    token = {};
    for (auto& t : racing) t.join();
    EXPECT_EQ(s->errors, 1);
    EXPECT_EQ(s->code, errc::cancelled);
  }
}

}  // namespace
