// SPDX-License-Identifier: Apache-2.0
#include "runtime/sync/release_list.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace sluice::detail {
namespace {

class noted final : public releasable {
 public:
  noted(std::vector<int>& log, int number) : log_(log), number_(number) {}
  ~noted() override { log_.push_back(number_); }

 private:
  std::vector<int>& log_;
  int number_;
};

TEST(release_list, destroys_what_was_pushed_oldest_first) {
  std::vector<int> log;
  release_list list;
  EXPECT_TRUE(list.empty());
  for (int i = 0; i < 5; ++i) list.push(new noted(log, i));
  EXPECT_EQ(list.size(), 5u);
  EXPECT_FALSE(list.empty());
  EXPECT_TRUE(log.empty());
  list.drain();
  EXPECT_EQ(log, (std::vector<int>{0, 1, 2, 3, 4}));
  EXPECT_TRUE(list.empty());
  EXPECT_EQ(list.size(), 0u);
  list.drain();
}

/// Pushes two items when it is destroyed.
class pushing_two final : public releasable {
 public:
  pushing_two(release_list& list, std::vector<int>& log) : list_(list), log_(log) {}
  ~pushing_two() override {
    for (int i = 1; i <= 2; ++i) list_.push(new noted(log_, i));
    if (drains) list_.drain();
  }
  bool drains = false;

 private:
  release_list& list_;
  std::vector<int>& log_;
};

TEST(release_list, releases_what_a_destructor_pushes_before_older_items) {
  std::vector<int> log;
  release_list list;
  list.push(new pushing_two(list, log));
  list.push(new noted(log, 3));
  EXPECT_EQ(list.drain_some(1), 1U);
  EXPECT_EQ(list.size(), 3U);
  EXPECT_EQ(list.drain_some(1), 1U);
  EXPECT_FALSE(list.empty());
  EXPECT_EQ(list.drain_some(9), 2U);
  EXPECT_EQ(log, (std::vector<int>{2, 1, 3}));
  EXPECT_TRUE(list.empty());
  EXPECT_EQ(list.size(), 0U);
}

TEST(release_list, a_destructor_may_drain_what_it_has_pushed) {
  std::vector<int> log;
  release_list list;
  auto* const item = new pushing_two(list, log);
  item->drains = true;
  list.push(item);
  EXPECT_EQ(list.drain_some(1), 1U);
  EXPECT_EQ(log.size(), 2U);
  EXPECT_EQ(list.size(), 0U);
}

TEST(release_list, drains_at_its_end) {
  std::vector<int> log;
  {
    release_list list;
    list.push(new noted(log, 1));
  }
  EXPECT_EQ(log, std::vector<int>{1});
}

TEST(release_list, takes_what_a_destructor_pushes) {
  class pushing final : public releasable {
   public:
    pushing(release_list& list, std::vector<int>& log) : list_(list), log_(log) {}
    ~pushing() override { list_.push(new noted(log_, 2)); }

   private:
    release_list& list_;
    std::vector<int>& log_;
  };
  std::vector<int> log;
  release_list list;
  list.push(new pushing(list, log));
  list.drain();
  EXPECT_EQ(log, std::vector<int>{2});
  EXPECT_TRUE(list.empty());
}

// A drain waits for releases that other threads have begun, so their memory is available
// afterwards.
TEST(release_list, waits_for_what_another_thread_is_destroying) {
  class slow final : public releasable {
   public:
    slow(std::atomic<bool>& begun, std::atomic<bool>& open, std::atomic<bool>& gone)
        : begun_(begun), open_(open), gone_(gone) {}
    ~slow() override {
      begun_ = true;
      while (!open_) std::this_thread::yield();
      gone_ = true;
    }

   private:
    std::atomic<bool>& begun_;
    std::atomic<bool>& open_;
    std::atomic<bool>& gone_;
  };
  std::atomic<bool> begun{false};
  std::atomic<bool> open{false};
  std::atomic<bool> gone{false};
  std::atomic<bool> back{false};
  release_list list;
  list.push(new slow(begun, open, gone));
  std::thread draining([&] { list.drain(); });
  while (!begun) std::this_thread::yield();
  std::thread waiting([&] {
    list.drain_and_wait();
    EXPECT_TRUE(gone);
    back = true;
  });
  for (int i = 0; i < 1000; ++i) {
    EXPECT_FALSE(back);
    std::this_thread::yield();
  }
  open = true;
  draining.join();
  waiting.join();
}

// Two threads overlap their drains, so that at any moment one of them drains. A waiter returns
// nevertheless.
TEST(release_list, waits_for_the_drains_that_have_begun_and_no_others) {
  struct relay {
    std::atomic<int> begun{0};
    std::atomic<bool> returned{false};
  };
  /// Its release lasts until the release of the next baton has begun.
  class baton final : public releasable {
   public:
    baton(relay& r, int number) : relay_(r), number_(number) {}
    ~baton() override {
      ++relay_.begun;
      while (relay_.begun <= number_ && !relay_.returned) std::this_thread::yield();
    }

   private:
    relay& relay_;
    int number_;
  };
  relay r;
  release_list list;
  std::vector<std::thread> runners;
  for (int first = 0; first < 2; ++first) {
    runners.emplace_back([&, first] {
      for (int number = first + 1; !r.returned; number += 2) {
        while (r.begun < number - 1 && !r.returned) std::this_thread::yield();
        list.push(new baton(r, number));
        list.drain();
      }
    });
  }
  while (r.begun < 2) std::this_thread::yield();
  list.drain_and_wait();
  r.returned = true;
  for (auto& t : runners) t.join();
  list.drain();
}

TEST(release_list, releases_some_and_leaves_the_driver_s_share) {
  std::vector<int> log;
  release_list list;
  list.push_for_driver(new noted(log, 100));
  for (int i = 0; i < 5; ++i) list.push(new noted(log, i));
  EXPECT_EQ(list.drain_some(2), 2u);
  EXPECT_EQ(log, (std::vector<int>{0, 1}));
  list.push(new noted(log, 5));
  EXPECT_EQ(list.drain_some(3), 3u);
  EXPECT_FALSE(list.empty());
  EXPECT_EQ(list.drain_some(32), 1u);
  EXPECT_EQ(log, (std::vector<int>{0, 1, 2, 3, 4, 5}));
  EXPECT_TRUE(list.empty());
  EXPECT_TRUE(list.waits_for_driver());
  EXPECT_EQ(list.drain_some(32), 0u);
  EXPECT_EQ(list.size(), 1u);
  list.drain();
  EXPECT_EQ(log.back(), 100);
  EXPECT_EQ(list.size(), 0u);
}

TEST(release_list, drains_what_a_bounded_drain_has_left) {
  std::vector<int> log;
  release_list list;
  for (int i = 0; i < 4; ++i) list.push(new noted(log, i));
  EXPECT_EQ(list.drain_some(1), 1u);
  list.drain();
  EXPECT_EQ(log, (std::vector<int>{0, 1, 2, 3}));
}

TEST(release_list, may_be_drained_and_waited_for_by_what_it_destroys) {
  class draining final : public releasable {
   public:
    draining(release_list& list, release_list& other) : list_(list), other_(other) {}
    ~draining() override {
      other_.drain_and_wait();
      list_.drain_and_wait();
    }

   private:
    release_list& list_;
    release_list& other_;
  };
  std::vector<int> log;
  release_list list;
  release_list other;
  list.push(new draining(list, other));
  other.push(new draining(list, other));
  other.push(new noted(log, 1));
  list.drain_and_wait();
  EXPECT_EQ(log, std::vector<int>{1});
  EXPECT_EQ(list.size() + other.size(), 0u);
}

TEST(release_list, loses_and_doubles_nothing_between_threads) {
  class counted final : public releasable {
   public:
    explicit counted(std::atomic<int>& count) : count_(count) {}
    ~counted() override { count_.fetch_add(1); }

   private:
    std::atomic<int>& count_;
  };
  constexpr int each = 5000;
  std::atomic<int> destroyed{0};
  std::atomic<int> pushing{3};
  release_list list;
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      for (int n = 0; n < each; ++n) list.push(new counted(destroyed));
      pushing.fetch_sub(1);
    });
  }
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&] {
      while (pushing.load() != 0) list.drain();
    });
  }
  for (auto& thread : threads) thread.join();
  list.drain();
  EXPECT_EQ(destroyed.load(), 3 * each);
  EXPECT_EQ(list.size(), 0u);
}

}  // namespace
}  // namespace sluice::detail
