// SPDX-License-Identifier: Apache-2.0
#include "service/arena/front_channel.hpp"

#include "tests/service/arena/worker_beside.hpp"
#include "tests/support/seed.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <optional>
#include <random>
#include <stdexcept>
#include <thread>
#include <vector>

namespace sluice::service {
namespace {

using test::is_readable;
using test::request_for_bytes;
using test::send_bytes;
using test::send_echo;
using test::worker_beside;

constexpr arena_sizes small_sizes{.request_bytes = 8192, .reply_bytes = 8192, .ring_capacity = 4};

[[nodiscard]] std::vector<std::byte> random_bytes(std::mt19937_64& generator, std::size_t count) {
  std::vector<std::byte> bytes(count);
  for (auto& byte : bytes) byte = static_cast<std::byte>(generator());
  return bytes;
}

/// The requests that have reached the worker.
[[nodiscard]] std::vector<run_message> receive_all(worker_channel& worker) {
  std::vector<run_message> requests;
  std::vector<std::uint64_t> cancellations;
  while (worker.receive(requests, cancellations) != 0) {
  }
  EXPECT_TRUE(cancellations.empty());
  return requests;
}

TEST(front_channel, gives_each_tensor_memory_of_its_own) {
  front_channel front(small_sizes);
  const std::vector<std::uint64_t> sizes{1, 0, 256, 300};
  auto region = front.allocate(sizes);
  ASSERT_TRUE(region);
  ASSERT_EQ(region->size(), sizes.size());
  const auto* memory = front.memory()->bytes().data();
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    EXPECT_EQ(region->tensor(i).size(), sizes[i]);
    EXPECT_EQ((region->tensor(i).data() - memory) % 256, 0);
    if (i == 0) continue;
    const auto previous = region->tensor(i - 1);
    EXPECT_GE(region->tensor(i).data(), previous.data() + previous.size());
  }
}

TEST(front_channel, carries_a_request_and_its_reply) {
  auto generator = sluice::test::make_generator();
  front_channel front(small_sizes);
  const auto worker = worker_beside(front);
  const std::vector<std::uint64_t> sizes{12, 100};
  auto region = front.allocate(sizes);
  run_message message{.number = 77,
                      .model = 3,
                      .inputs = {{.number = 1, .type = datatype::fp32, .shape = {3}},
                                 {.number = 0, .type = datatype::uint8, .shape = {10, 10}}},
                      .outputs = {2},
                      .deadline_ns = 99};
  const auto bytes = random_bytes(generator, 100);
  std::copy(bytes.begin(), bytes.end(), region->tensor(1).begin());
  ASSERT_TRUE(front.send(message, *region));

  const auto requests = receive_all(*worker);
  ASSERT_EQ(requests.size(), 1);
  EXPECT_EQ(requests[0].number, 77);
  EXPECT_EQ(requests[0].model, 3);
  EXPECT_EQ(requests[0].outputs, std::vector<std::uint32_t>{2});
  EXPECT_EQ(requests[0].deadline_ns, 99);
  ASSERT_EQ(requests[0].inputs.size(), 2);
  const auto arrived = worker->bytes(requests[0].inputs[1]);
  EXPECT_TRUE(std::equal(arrived.begin(), arrived.end(), bytes.begin(), bytes.end()));
  ASSERT_TRUE(send_echo(*worker, requests[0]));

  std::vector<received_reply> replies;
  ASSERT_EQ(front.receive(replies), 1);
  EXPECT_EQ(replies[0].number, 77);
  EXPECT_FALSE(replies[0].error);
  ASSERT_EQ(replies[0].outputs.size(), 2);
  EXPECT_EQ(replies[0].outputs[1].shape, (std::vector<std::int64_t>{10, 10}));
  const auto output = replies[0].outputs[1].bytes;
  EXPECT_TRUE(std::equal(output.begin(), output.end(), bytes.begin(), bytes.end()));
  EXPECT_EQ(replies[0].request.tensor(1).size(), 100) << "the inputs are there for a retry";
}

TEST(front_channel, keeps_the_inputs_until_the_reply) {
  front_channel front(small_sizes);
  const auto worker = worker_beside(front);
  ASSERT_TRUE(send_bytes(front, 1, std::vector<std::byte>(100)));
  EXPECT_GT(front.request_bytes_in_use(), 0);
  const auto requests = receive_all(*worker);
  EXPECT_GT(front.request_bytes_in_use(), 0);
  ASSERT_TRUE(worker->send_error(1, request_status::unavailable, "no model"));
  std::vector<received_reply> replies;
  ASSERT_EQ(front.receive(replies), 1);
  ASSERT_TRUE(replies[0].error);
  EXPECT_EQ(replies[0].error->status(), request_status::unavailable);
  EXPECT_STREQ(replies[0].error->what(), "no model");
  EXPECT_GT(front.request_bytes_in_use(), 0) << "the reply still has the inputs";
  replies.clear();
  EXPECT_EQ(front.request_bytes_in_use(), 0);
}

TEST(front_channel, returns_the_inputs_of_a_worker_that_is_gone) {
  front_channel front(small_sizes);
  ASSERT_TRUE(send_bytes(front, 5, std::vector<std::byte>(100, std::byte{5})));
  ASSERT_TRUE(send_bytes(front, 6, std::vector<std::byte>(100, std::byte{6})));
  auto pending = front.take_pending();
  ASSERT_EQ(pending.size(), 2);
  for (const auto& request : pending) {
    EXPECT_EQ(request.region.tensor(0)[99], static_cast<std::byte>(request.number));
  }
  EXPECT_GT(front.request_bytes_in_use(), 0);
  pending.clear();
  EXPECT_EQ(front.request_bytes_in_use(), 0);
  EXPECT_TRUE(front.take_pending().empty());
}

TEST(front_channel, allocates_nothing_without_memory) {
  front_channel front(small_sizes);
  const std::vector<std::uint64_t> half{3900};
  auto first = front.allocate(half);
  auto second = front.allocate(std::vector<std::uint64_t>{3500});
  ASSERT_TRUE(first && second);
  EXPECT_FALSE(front.allocate(half));
  EXPECT_TRUE(front.can_hold(half)) << "later";
  second.reset();
  EXPECT_TRUE(front.allocate(std::vector<std::uint64_t>{3500}));
  for (const std::uint64_t size : {std::uint64_t{8192}, ~std::uint64_t{0}, ~std::uint64_t{300}}) {
    EXPECT_FALSE(front.can_hold({&size, 1}));
    EXPECT_FALSE(front.allocate({&size, 1}));
  }
  EXPECT_FALSE(front.can_hold(std::vector<std::uint64_t>{4096, ~std::uint64_t{4000}}));
}

TEST(front_channel, refuses_more_requests_than_replies_fit) {
  front_channel front(small_sizes);
  const auto worker = worker_beside(front);
  const std::vector<std::byte> bytes(10);
  for (std::uint64_t number = 0; number < 4; ++number)
    EXPECT_TRUE(send_bytes(front, number, bytes));
  const auto requests = receive_all(*worker);
  const std::uint64_t size = 10;
  auto region = front.allocate({&size, 1});
  auto message = request_for_bytes(4, *region);
  EXPECT_FALSE(front.send(message, *region)) << "in flight, although the ring is empty";
  EXPECT_EQ(region->tensor(0).size(), 10) << "the caller keeps its memory";
  ASSERT_TRUE(worker->send_error(2, request_status::internal, ""));
  std::vector<received_reply> replies;
  ASSERT_EQ(front.receive(replies), 1);
  EXPECT_TRUE(front.send(message, *region));
}

TEST(front_channel, refuses_requests_that_contradict_themselves) {
  front_channel front(small_sizes);
  const std::vector<std::byte> bytes(10);
  ASSERT_TRUE(send_bytes(front, 1, bytes));
  EXPECT_THROW((void)send_bytes(front, 1, bytes), std::invalid_argument) << "twice";
  const std::uint64_t size = 10;
  auto region = front.allocate({&size, 1});
  run_message message{.number = 2};
  EXPECT_THROW((void)front.send(message, *region), std::invalid_argument) << "no input";
  message = request_for_bytes(2, *region);
  message.inputs[0].shape = {11};
  EXPECT_THROW((void)front.send(message, *region), std::invalid_argument);
  message.inputs[0].shape = {10};
  EXPECT_TRUE(front.send(message, *region));
}

TEST(front_channel, cancels_what_is_in_flight) {
  front_channel front(small_sizes);
  const auto worker = worker_beside(front);
  ASSERT_TRUE(send_bytes(front, 8, std::vector<std::byte>(10)));
  ASSERT_TRUE(front.cancel(9)) << "no request, no message";
  ASSERT_TRUE(front.cancel(8));
  std::vector<run_message> requests;
  std::vector<std::uint64_t> cancellations;
  EXPECT_EQ(worker->receive(requests, cancellations), 2);
  EXPECT_EQ(requests.size(), 1);
  EXPECT_EQ(cancellations, std::vector<std::uint64_t>{8});
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(front.cancel(8));
  EXPECT_FALSE(front.cancel(8)) << "the ring is full";
}

TEST(front_channel, wakes_only_a_worker_that_sleeps) {
  front_channel front(small_sizes);
  const auto worker = worker_beside(front);
  const std::vector<std::byte> bytes(10);
  ASSERT_TRUE(send_bytes(front, 1, bytes));
  EXPECT_FALSE(is_readable(worker->wake_descriptor()));
  EXPECT_FALSE(worker->begin_sleep()) << "a request came before";
  (void)receive_all(*worker);
  ASSERT_TRUE(worker->begin_sleep());
  EXPECT_FALSE(is_readable(worker->wake_descriptor()));
  ASSERT_TRUE(send_bytes(front, 2, bytes));
  EXPECT_TRUE(is_readable(worker->wake_descriptor()));
  worker->end_sleep();
  EXPECT_FALSE(is_readable(worker->wake_descriptor()));
  ASSERT_TRUE(front.cancel(2));
  EXPECT_FALSE(is_readable(worker->wake_descriptor()));
  (void)worker->begin_sleep();

  EXPECT_TRUE(front.begin_sleep());
  EXPECT_FALSE(is_readable(front.front_wake_descriptor()));
  ASSERT_TRUE(worker->send_error(1, request_status::internal, ""));
  EXPECT_TRUE(is_readable(front.front_wake_descriptor()));
  front.end_sleep();
  EXPECT_FALSE(is_readable(front.front_wake_descriptor()));
  EXPECT_FALSE(front.begin_sleep()) << "the reply was not received yet";
  ASSERT_TRUE(worker->send_error(2, request_status::internal, ""));
  EXPECT_FALSE(is_readable(front.front_wake_descriptor()));
}

TEST(front_channel, memory_outlives_it) {
  std::vector<received_reply> replies;
  std::optional<request_region> region;
  {
    front_channel front(small_sizes);
    const auto worker = worker_beside(front);
    ASSERT_TRUE(send_bytes(front, 1, std::vector<std::byte>(10, std::byte{1})));
    ASSERT_TRUE(send_echo(*worker, receive_all(*worker).at(0)));
    ASSERT_EQ(front.receive(replies), 1);
    region = front.allocate(std::vector<std::uint64_t>{10});
  }
  EXPECT_EQ(replies[0].outputs[0].bytes[9], std::byte{1});
  region->tensor(0)[9] = std::byte{2};
}

/// Answers every request with its inputs until the thread is told to end. Sleeps when it finds
/// nothing to do a random number of times.
void echo(worker_channel& worker, const std::atomic<bool>& is_over, std::uint64_t seed) {
  std::mt19937_64 generator(seed);
  std::vector<run_message> requests;
  std::vector<std::uint64_t> cancellations;
  std::uint64_t idle_left = 0;
  while (!is_over) {
    if (worker.receive(requests, cancellations) == 0 && !worker.take_releases() &&
        idle_left-- == 0) {
      idle_left = generator() % 4 == 0 ? 0 : generator() % 400;
      if (worker.begin_sleep()) {
        ASSERT_TRUE(is_readable(worker.wake_descriptor(), test::hang_in_ms)) << "a lost wake-up";
        worker.end_sleep();
      }
    }
    while (!requests.empty() && send_echo(worker, requests.back())) requests.pop_back();
  }
}

TEST(front_channel, loses_no_wake_up) {
  constexpr std::uint64_t count = 20'000;  // --gtest_repeat=50 makes it a million
  auto generator = sluice::test::make_generator();
  front_channel front(small_sizes);
  const auto worker = worker_beside(front);
  std::atomic<bool> is_over = false;
  std::thread thread([&, seed = generator()] { echo(*worker, is_over, seed); });
  const std::vector<std::byte> bytes(8);
  std::uint64_t sleeps = 0;
  for (std::uint64_t number = 0; number < count; ++number) {
    ASSERT_TRUE(send_bytes(front, number, bytes));
    std::vector<received_reply> replies;
    for (auto idle_left = generator() % 2 == 0 ? 0 : generator() % 400;
         front.receive(replies) == 0;) {
      if (idle_left-- != 0) continue;
      idle_left = 0;
      if (!front.begin_sleep()) continue;
      ++sleeps;
      ASSERT_TRUE(is_readable(front.front_wake_descriptor(), test::hang_in_ms)) << "a lost wake-up";
      front.end_sleep();
    }
    ASSERT_EQ(replies.size(), 1);
    ASSERT_EQ(replies[0].number, number);
  }
  EXPECT_GT(sleeps, 0);
  is_over = true;
  ASSERT_TRUE(send_bytes(front, count, bytes));
  thread.join();
}

TEST(front_channel, serves_several_threads) {
  auto generator = sluice::test::make_generator();
  front_channel front({.request_bytes = 65536, .reply_bytes = 16384, .ring_capacity = 16});
  const auto worker = worker_beside(front);
  std::atomic<bool> is_over = false;
  std::thread thread([&, seed = generator()] { echo(*worker, is_over, seed); });
  constexpr std::uint64_t count = 3'000;  // of each thread
  constexpr std::uint64_t senders = 3;
  std::vector<std::thread> threads;
  for (std::uint64_t id = 0; id < senders; ++id) {
    threads.emplace_back([&, id] {
      for (std::uint64_t i = 0; i < count;) {
        const std::vector<std::byte> bytes(1 + (i * 97) % 3000, static_cast<std::byte>(i + id));
        if (send_bytes(front, i * senders + id, bytes)) {
          ++i;
        } else {
          std::this_thread::yield();
        }
      }
    });
  }
  std::vector<received_reply> replies;
  std::uint64_t received = 0;
  while (received < count * senders) {
    if (front.receive(replies) == 0 && front.begin_sleep()) {
      ASSERT_TRUE(is_readable(front.front_wake_descriptor(), test::hang_in_ms));
      front.end_sleep();
    }
    for (const auto& answer : replies) {
      const auto i = answer.number / senders, id = answer.number % senders;
      const auto bytes = answer.outputs.at(0).bytes;
      ASSERT_EQ(bytes.size(), 1 + (i * 97) % 3000);
      ASSERT_TRUE(std::all_of(bytes.begin(), bytes.end(),
                              [&](std::byte b) { return b == static_cast<std::byte>(i + id); }));
    }
    received += replies.size();
    replies.clear();
  }
  for (auto& sender : threads) sender.join();
  is_over = true;
  ASSERT_TRUE(send_bytes(front, ~std::uint64_t{0} >> 1, std::vector<std::byte>(1)));
  thread.join();
}

}  // namespace
}  // namespace sluice::service
