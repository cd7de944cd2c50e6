// SPDX-License-Identifier: Apache-2.0
#include "service/arena/worker_channel.hpp"

#include "tests/service/arena/worker_beside.hpp"
#include "tests/support/seed.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

namespace sluice::service {
namespace {

using test::is_readable;
using test::send_bytes;
using test::send_echo;
using test::worker_beside;

constexpr arena_sizes worker_sizes{
    .request_bytes = 65536, .reply_bytes = 4096, .ring_capacity = 16};
const std::vector<std::uint64_t> large{3500};

/// Sends `count` requests and has the worker receive them.
[[nodiscard]] std::vector<run_message> exchange(front_channel& front, worker_channel& worker,
                                                std::uint64_t count, std::size_t bytes) {
  for (std::uint64_t i = 0; i < count; ++i) {
    EXPECT_TRUE(send_bytes(front, i, std::vector<std::byte>(bytes)));
  }
  std::vector<run_message> requests;
  std::vector<std::uint64_t> cancellations;
  EXPECT_EQ(worker.receive(requests, cancellations), count);
  return requests;
}

TEST(worker_channel, refuses_memory_of_another_kind) {
  EXPECT_THROW(worker_channel(std::make_shared<shared_memory>(shared_memory::create(65536)),
                              make_wake_descriptor(), make_wake_descriptor()),
               std::invalid_argument);
}

TEST(worker_channel, learns_of_releases_after_a_shortage) {
  front_channel front(worker_sizes);
  const auto worker = worker_beside(front);
  const auto requests = exchange(front, *worker, 3, 3500);
  ASSERT_TRUE(send_echo(*worker, requests[0]));
  std::vector<received_reply> replies;
  ASSERT_EQ(front.receive(replies), 1);
  ASSERT_TRUE(worker->can_hold(large));
  EXPECT_FALSE(worker->allocate(large));
  EXPECT_FALSE(worker->take_releases());
  EXPECT_FALSE(is_readable(worker->wake_descriptor()));
  replies.clear();
  EXPECT_TRUE(is_readable(worker->wake_descriptor()));
  EXPECT_TRUE(worker->take_releases());
  EXPECT_FALSE(worker->take_releases()) << "once";
  worker->end_sleep();
  ASSERT_TRUE(send_echo(*worker, requests[1]));

  // A release without a shortage is silent.
  ASSERT_EQ(front.receive(replies), 1);
  replies.clear();
  EXPECT_FALSE(is_readable(worker->wake_descriptor()));
  EXPECT_FALSE(worker->take_releases());
  EXPECT_TRUE(send_echo(*worker, requests[2]));
}

TEST(worker_channel, learns_of_replies_that_are_given_up) {
  front_channel front(worker_sizes);
  const auto worker = worker_beside(front);
  auto region = worker->allocate(large);
  ASSERT_TRUE(region);
  auto moved = std::move(*region);
  EXPECT_FALSE(worker->allocate(large));
  auto& same = moved;
  moved = std::move(same);
  EXPECT_FALSE(worker->allocate(large));
  { const auto last = std::move(moved); }
  EXPECT_TRUE(is_readable(worker->wake_descriptor()));
  EXPECT_TRUE(worker->take_releases());
  EXPECT_TRUE(worker->allocate(large));
}

TEST(worker_channel, has_no_more_replies_than_the_front_can_release) {
  front_channel front({.request_bytes = 4096, .reply_bytes = 65536, .ring_capacity = 16});
  const auto worker = worker_beside(front);
  std::vector<reply_region> regions;
  for (int i = 0; i < 16; ++i) {
    auto region = worker->allocate({});
    ASSERT_TRUE(region);
    regions.push_back(std::move(*region));
  }
  EXPECT_FALSE(worker->allocate({}));
  regions.pop_back();
  EXPECT_TRUE(worker->allocate({}));
}

TEST(worker_channel, says_when_an_error_finds_no_memory) {
  front_channel front(worker_sizes);
  const auto worker = worker_beside(front);
  (void)exchange(front, *worker, 1, 1);
  auto region = worker->allocate(large);
  EXPECT_FALSE(worker->send_error(0, request_status::internal, std::string(4096, 'x')));
  region.reset();
  EXPECT_FALSE(worker->can_hold(std::vector<std::uint64_t>{4096}));
  EXPECT_TRUE(worker->send_error(0, request_status::internal, std::string(3000, 'x')));
}

TEST(worker_channel, refuses_outputs_that_do_not_match_their_memory) {
  front_channel front(worker_sizes);
  const auto worker = worker_beside(front);
  const std::vector<std::uint64_t> sizes{8};
  EXPECT_THROW(worker->send(0, {}, *worker->allocate(sizes)), std::invalid_argument);
  EXPECT_THROW(worker->send(0, {{.type = datatype::fp32, .shape = {3}}}, *worker->allocate(sizes)),
               std::invalid_argument);
  EXPECT_TRUE(worker->allocate(large)) << "the memory has returned";
}

// The front reads the flag for a release, the worker collects this release, finds too little
// memory and sets the flag, and then the front clears it.
TEST(worker_channel, is_woken_by_a_release_after_a_late_wake_up) {
  front_channel front(worker_sizes);
  const auto worker = worker_beside(front);
  const auto requests = exchange(front, *worker, 2, 3500);
  ASSERT_TRUE(send_echo(*worker, requests[0]));
  std::vector<received_reply> replies;
  ASSERT_EQ(front.receive(replies), 1);
  ASSERT_FALSE(send_echo(*worker, requests[1]));
  ASSERT_TRUE(worker->begin_sleep());
  wake_signal(arena_layout::release_wanted(worker->memory()), front.worker_wake_descriptor())
      .notify();
  ASSERT_TRUE(is_readable(worker->wake_descriptor()));
  worker->end_sleep();
  EXPECT_FALSE(worker->take_releases());
  ASSERT_TRUE(worker->begin_sleep());
  replies.clear();
  EXPECT_TRUE(is_readable(worker->wake_descriptor()));
  EXPECT_TRUE(worker->take_releases());
}

/// Requests whose replies wait for memory, as a worker keeps them.
class reply_queue {
 public:
  explicit reply_queue(worker_channel& worker) : worker_(worker) {}

  /// Answers a request, now or when memory returns.
  void answer(run_message request) {
    {
      const std::lock_guard lock(mutex_);
      waiting_.push_back(std::move(request));  // before the allocation
    }
    retry();
  }
  void retry() {
    const std::lock_guard lock(mutex_);
    while (!waiting_.empty() && send_echo(worker_, waiting_.front())) waiting_.pop_front();
  }

 private:
  worker_channel& worker_;
  std::mutex mutex_;
  std::deque<run_message> waiting_;
};

TEST(worker_channel, answers_from_several_threads_with_little_memory) {
  auto generator = sluice::test::make_generator();
  front_channel front(worker_sizes);
  const auto worker = worker_beside(front);
  reply_queue queue(*worker);
  std::atomic<bool> is_over = false;
  std::mutex mutex;
  std::condition_variable is_filled;
  std::vector<run_message> requests;  // guarded by the mutex

  std::vector<std::thread> threads;
  threads.emplace_back([&] {  // the I/O thread, which always sleeps when it can
    while (!is_over) {
      std::vector<run_message> arrived;
      std::vector<std::uint64_t> cancellations;
      (void)worker->receive(arrived, cancellations);
      if (worker->take_releases()) queue.retry();
      if (arrived.empty()) {
        if (!worker->begin_sleep()) continue;
        ASSERT_TRUE(is_readable(worker->wake_descriptor(), test::hang_in_ms)) << "a lost wake-up";
        worker->end_sleep();
        continue;
      }
      const std::lock_guard lock(mutex);
      for (auto& request : arrived) requests.push_back(std::move(request));
      is_filled.notify_all();
    }
  });
  for (int id = 0; id < 3; ++id) {
    threads.emplace_back([&] {
      while (true) {
        std::unique_lock lock(mutex);
        is_filled.wait(lock, [&] { return is_over || !requests.empty(); });
        if (requests.empty()) return;
        auto request = std::move(requests.back());
        requests.pop_back();
        lock.unlock();
        queue.answer(std::move(request));
      }
    });
  }

  constexpr std::uint64_t count = 10'000;
  std::set<std::uint64_t> missing;
  std::vector<received_reply> kept;  // replies that slow clients read
  for (std::uint64_t sent = 0; sent < count || !missing.empty();) {
    if (sent < count && missing.size() < 8 &&
        send_bytes(front, sent, std::vector<std::byte>(1 + generator() % 3500))) {
      missing.insert(sent++);
      continue;
    }
    std::vector<received_reply> replies;
    if (front.receive(replies) == 0 && kept.empty() && front.begin_sleep()) {
      ASSERT_TRUE(is_readable(front.front_wake_descriptor(), test::hang_in_ms)) << "a lost wake-up";
      front.end_sleep();
    }
    if (replies.empty() && !kept.empty()) kept.erase(kept.begin());
    for (auto& answer : replies) {
      ASSERT_EQ(missing.erase(answer.number), 1) << "one reply for each request";
      kept.push_back(std::move(answer));
    }
    if (!kept.empty() && generator() % 2 == 0) kept.pop_back();
  }
  kept.clear();
  {
    const std::lock_guard lock(mutex);
    is_over = true;
    is_filled.notify_all();
  }
  ASSERT_TRUE(send_bytes(front, count, std::vector<std::byte>(1)));
  for (auto& thread : threads) thread.join();
}

}  // namespace
}  // namespace sluice::service
