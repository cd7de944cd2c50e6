// SPDX-License-Identifier: Apache-2.0
// The engine alone, with continuations of the test.
#include "runtime/core/runtime_core.hpp"
#include "tests/envelope/calling.hpp"
#include "tests/envelope/launches.hpp"
#include "tests/support/compute_sanitizer.hpp"
#include "tests/support/failing_allocations.hpp"
#include "tests/support/instruction_count.hpp"
#include "tests/support/seed.hpp"

#include <sluice/envelope/completion_engine.hpp>
#include <sluice/runtime/host_task.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <future>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace {

using namespace sluice;
using namespace sluice::test;

class completion_engine_test : public service_test {};

TEST_P(completion_engine_test, completes_what_has_run_already) {
  const auto stream = test_lane().stream();
  const auto ticket = take_ticket(stream);
  stream.synchronize();
  std::atomic<int> calls{0};
  service_->engine().submit(stream, ticket, std::make_unique<calling>([&](std::optional<errc> f) {
                              EXPECT_EQ(f, std::nullopt);
                              ++calls;
                            }));
  settle(*service_);
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(service_->engine().strategy(), std::get<1>(GetParam()));
}

TEST_P(completion_engine_test, keeps_no_outcome_for_a_continuation_that_is_never_submitted) {
  auto& readers = detail::timeline::of(test_lane().stream())->outcome_readers();
  {
    calling announced([](std::optional<errc>) {});
    completion_engine::expect(test_lane().stream(), announced);
    completion_engine::expect(test_lane().stream(), announced);
    readers.begin_grace();
    EXPECT_FALSE(readers.grace_over());
  }
  EXPECT_TRUE(readers.grace_over());
}

TEST_P(completion_engine_test, destroys_continuations_on_the_release_list) {
  std::atomic<bool> destroyed{false};
  std::atomic<bool> destroyed_at_call{true};
  service_->engine().submit(
      test_lane().stream(), take_ticket(test_lane().stream()),
      std::make_unique<calling>([&](std::optional<errc>) { destroyed_at_call = destroyed.load(); },
                                [&] { destroyed = true; }));
  settle(*service_);
  EXPECT_FALSE(destroyed_at_call);
  EXPECT_TRUE(destroyed);
}

TEST_P(completion_engine_test, takes_work_from_many_threads) {
  constexpr int threads = 4;
  constexpr int each = 500;
  std::atomic<int> calls{0};
  std::vector<std::thread> submitting;
  for (int t = 0; t < threads; ++t) {
    submitting.emplace_back([&] {
      const auto stream = runtime().create_stream();
      for (int i = 0; i < each; ++i) {
        service_->engine().submit(stream, take_ticket(stream),
                                  std::make_unique<calling>([&](std::optional<errc>) { ++calls; }));
      }
    });
  }
  for (auto& t : submitting) t.join();
  settle(*service_);
  EXPECT_EQ(calls, threads * each);
  EXPECT_EQ(runtime().statistics().releases_pending, 0u);
}

TEST_P(completion_engine_test, may_be_given_work_by_a_continuation) {
  std::atomic<int> calls{0};
  service_->engine().submit(test_lane().stream(), take_ticket(test_lane().stream()),
                            std::make_unique<calling>([&](std::optional<errc>) {
                              ++calls;
                              service_->engine().submit(
                                  test_lane().stream(), take_ticket(test_lane().stream()),
                                  std::make_unique<calling>([&](std::optional<errc>) { ++calls; }));
                            }));
  settle(*service_);
  EXPECT_EQ(calls, 2);
}

// More launches fail than their stream remembers, before the first of them is answered.
TEST_P(completion_engine_test, answers_no_launch_that_succeeded_as_failed) {
  if (std::get<1>(GetParam()) == completion_strategy::synchronous) {
    GTEST_SKIP() << "each launch is answered before the next one is made";
  }
  constexpr auto failures =
      detail::ticket_failures::max_reasons + detail::ticket_failures::max_forgotten + 100;
  const auto stream = test_lane().stream();
  std::promise<void> opened;
  service_->engine().submit(
      stream, take_ticket(stream),
      std::make_unique<calling>([&](std::optional<errc>) { opened.get_future().wait(); }));
  std::atomic<std::size_t> right{0};
  std::atomic<std::size_t> wrong{0};
  for (std::size_t i = 0; i < 2 * failures; ++i) {
    const bool fails = i % 2 == 0;
    auto work = std::make_unique<calling>(
        [&, fails](std::optional<errc> f) { ++(f.has_value() == fails ? right : wrong); });
    completion_engine::expect(stream, *work);
    detail::timeline::of(stream)->reserve();
    const error why(errc::unsupported, "failure " + std::to_string(i));
    const auto ticket = detail::timeline::of(stream)->submit({}, fails ? &why : nullptr);
    service_->engine().submit(stream, ticket, std::move(work));
    if (i % 32 == 0) stream.synchronize();
  }
  stream.synchronize();
  detail::runtime_core::of(runtime())->finish_reclaiming();  // the stream forgets here
  EXPECT_EQ(right + wrong, 0u) << "the engine waits";
  opened.set_value();
  settle(*service_);
  EXPECT_EQ(wrong, 0u);
  EXPECT_EQ(right, 2 * failures);
}

TEST_P(completion_engine_test, takes_streams_that_come_and_go) {
  // All are retired with work in flight.
  std::atomic<int> calls{0};
  for (int i = 0; i < 100; ++i) {
    const auto stream = runtime().create_stream();
    service_->engine().submit(stream, take_ticket(stream),
                              std::make_unique<calling>([&](std::optional<errc>) { ++calls; }));
  }
  settle(*service_);
  EXPECT_EQ(calls, 100);
}

TEST_P(completion_engine_test, allocates_nothing_for_many_streams) {
  if (service_->engine().threads() == 0) return;  // the launching thread allocates
  /// Stores how many allocations its completion thread has made.
  class counting final : public continuation {
   public:
    explicit counting(std::atomic<std::uint64_t>& count) : count_(count) {}
    std::shared_ptr<launch_reply> complete(const error*) noexcept override {
      count_ = 1 + allocations_made();
      return nullptr;
    }

   private:
    std::atomic<std::uint64_t>& count_;
  };
  constexpr std::size_t count = 300;
  std::vector<stream> streams;
  for (std::size_t i = 0; i < count; ++i) streams.push_back(runtime().create_stream());
  std::vector<std::atomic<std::uint64_t>> counts(count);
  for (std::size_t i = 0; i < count; ++i) {
    service_->engine().submit(streams[i], 0, std::make_unique<counting>(counts[i]));
    if (i == 0) await([&] { return counts[0] != 0; });
  }
  await([&] { return std::ranges::all_of(counts, [](const auto& m) { return m != 0; }); });
  for (const auto& m : counts) EXPECT_EQ(m, counts.front());
}

TEST_P(completion_engine_test, ends_when_its_own_continuation_drops_the_last_owner) {
  SLUICE_SKIP_UNDER_COMPUTE_SANITIZER("it waits for a stream's work where the stream is destroyed");
  std::atomic<bool> called{false};
  gate closed;
  lane_.reset();
  {
    const bool waits = std::get<1>(GetParam()) == completion_strategy::synchronous;
    auto service = std::make_shared<device_service>(
        device_, device_service_options{{}, std::get<1>(GetParam())});
    const auto stream = service->runtime().create_stream();
    if (!waits) closed.hold(stream);
    auto& engine = service->engine();
    const auto ticket = take_ticket(stream);
    // With `synchronous` the caller needs the engine until the call returns.
    const auto service_owner = waits ? service : nullptr;
    engine.submit(
        stream, ticket,
        std::make_unique<calling>([&, last = std::move(service)](std::optional<errc>) mutable {
          last.reset();
          called = true;
        }));
  }
  closed.open();
  while (!called) std::this_thread::yield();
  lane_ = std::make_unique<lane>(service_);
}

TEST_P(completion_engine_test, ends_again_and_again) {
  // Work that the strategy has queued after the launches may not have run yet.
  for (int round = 0; round < 50; ++round) {
    mailbox<int> box;
    {
      auto service = std::make_shared<device_service>(
          std::get<0>(GetParam()), device_service_options{{}, std::get<1>(GetParam())});
      lane l(service);
      service.reset();
      run_kernel(l, operands(), box.token(), 1, [](const launch_context&) {});
      EXPECT_EQ(box.value(), 1);
    }
    EXPECT_EQ(box.count(), 1u);
  }
}

INSTANTIATE_TEST_SUITE_P(devices, completion_engine_test,
                         testing::Combine(every_device(), every_strategy()), name_of_where);

TEST_P(completion_engine_test, may_end_in_the_reply_that_it_gives) {
  auto engine = std::make_unique<completion_engine>(runtime(), std::get<1>(GetParam()));
  auto& submitting = *engine;
  std::atomic<bool> ended{false};
  submitting.submit(test_lane().stream(), take_ticket(test_lane().stream()),
                    std::make_unique<calling>([&](std::optional<errc>) {
                      engine.reset();
                      ended = true;
                    }));
  await([&] { return ended.load(); });
}

TEST_P(completion_engine_test, completes_no_work_with_success) {
  std::atomic<int> failures{-1};
  service_->engine().submit(
      test_lane().stream(), timeline_point{}.ticket,
      std::make_unique<calling>([&](std::optional<errc> f) { failures = f ? 1 : 0; }));
  settle(*service_);
  EXPECT_EQ(failures, 0);
}

class gated_completion_test : public service_test {
 protected:
  /// Hands launches over in the order `order`, which numbers them from 0, and expects that they are
  /// completed in the order of their tickets.
  void hand_over(const std::vector<std::size_t>& order) {
    const auto stream = test_lane().stream();
    gate closed;
    closed.hold(stream);
    std::vector<std::uint64_t> tickets;
    for (std::size_t i = 0; i < order.size(); ++i) tickets.push_back(take_ticket(stream));
    std::vector<std::size_t> completed;  // only the completion thread writes it
    for (const auto i : order) {
      service_->engine().submit(stream, tickets[i],
                                std::make_unique<calling>([&completed, i](std::optional<errc>) {
                                  completed.push_back(i);
                                }));
    }
    EXPECT_EQ(service_->engine().pending(), order.size());
    // When a later submission has completed, the engine has taken all of them.
    const auto other = runtime().create_stream();
    std::atomic<bool> is_taken{false};
    service_->engine().submit(
        other, take_ticket(other),
        std::make_unique<calling>([&](std::optional<errc>) { is_taken = true; }));
    await([&] { return is_taken.load(); });
    closed.open();
    settle(*service_);
    ASSERT_EQ(completed.size(), order.size());
    EXPECT_TRUE(std::is_sorted(completed.begin(), completed.end()));
  }
  /// `count` launches, each two of which are handed over in the opposite order.
  void hand_over_pairs(std::size_t count) {
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < count; i += 2) order.insert(order.end(), {i + 1, i});
    hand_over(order);
  }
};

TEST_P(gated_completion_test, orders_what_was_handed_over_in_another_order) {
  hand_over({3, 1, 4, 0, 2});
}

TEST_P(gated_completion_test, orders_what_was_handed_over_in_any_order) {
  auto generator = make_generator();
  std::vector<std::size_t> order(64);
  std::iota(order.begin(), order.end(), std::size_t{0});
  for (int round = 0; round < 20; ++round) {
    std::shuffle(order.begin(), order.end(), generator);
    hand_over(order);
  }
}

TEST_P(gated_completion_test, orders_few_pairs) {
  hand_over_pairs(50);
}
TEST_P(gated_completion_test, orders_many_pairs) {
  hand_over_pairs(200);
}
// The queue is not searched from its beginning.
TEST_P(gated_completion_test, orders_pairs_in_linear_time) {
  SLUICE_REQUIRE_INSTRUCTION_COUNT();
  if (GetParam() != service_place("host", completion_strategy::polled)) {
    GTEST_SKIP() << "the queue is the same everywhere";
  }
  const auto count = [](const std::string& name) {
    return count_instructions("devices/gated_completion_test." + name + "/host_polled",
                              "sluice::detail::completion_thread::insert*");
  };
  const auto few = count("orders_few_pairs");
  const auto many = count("orders_many_pairs");
  ASSERT_TRUE(few && many);
  EXPECT_GT(*few, 0U);
  EXPECT_LE(*many, 6 * *few);
}

TEST_P(gated_completion_test, wakes_for_work_that_comes_while_it_sleeps) {
  // The engine is idle at the start of each round.
  for (int i = 0; i < 200; ++i) {
    std::atomic<bool> called{false};
    service_->engine().submit(
        test_lane().stream(), take_ticket(test_lane().stream()),
        std::make_unique<calling>([&](std::optional<errc>) { called = true; }));
    while (!called) std::this_thread::yield();
  }
}

INSTANTIATE_TEST_SUITE_P(devices, gated_completion_test,
                         testing::Combine(every_device(), asynchronous_strategies()),
                         name_of_where);

TEST(completion_of_failures, are_told_like_results) {
  for (const auto strategy : {completion_strategy::polled, completion_strategy::host_function,
                              completion_strategy::synchronous}) {
    device_service service(open_host_device(), {{}, strategy});
    const auto stream = service.runtime().create_stream();
    std::vector<std::optional<errc>> codes(3);
    for (std::size_t i = 0; i < codes.size(); ++i) {
      submit_host_task(stream, [i] {
        if (i == 1) throw error(errc::unsupported, "the second");
      });
      service.engine().submit(stream, take_ticket(stream),
                              std::make_unique<calling>([&codes, i](std::optional<errc> failure) {
                                codes[i] = failure;
                              }));
    }
    settle(service);
    EXPECT_EQ(codes, (std::vector<std::optional<errc>>{{}, errc::unsupported, {}}));
  }
}

}  // namespace
