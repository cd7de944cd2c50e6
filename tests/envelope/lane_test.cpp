// SPDX-License-Identifier: Apache-2.0
#include "runtime/timelines/timeline.hpp"
#include "tests/envelope/launches.hpp"

#include <sluice/runtime/memory_budget.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <semaphore>
#include <thread>
#include <utility>
#include <vector>

namespace {

using namespace sluice;
using namespace sluice::test;

class lane_test : public service_test {
 protected:
  /// One launch on `l` that counts its replies.
  void launch(lane& l, std::atomic<int>& replies) {
    run_kernel(l, operands(),
               reply_token<int>::from([&](int) { ++replies; }, [&](const error&) { ++replies; }), 0,
               [](const launch_context&) {});
  }
  /// Fills `l` with launches of as many commands as a host transfer, and returns their number.
  std::size_t fill_with_transfers(lane& l, mailbox<int>& box) {
    const kernel_envelope transfer({.library = "", .operation = "transfer"});
    std::size_t launches = 0;
    for (; !l.full(); ++launches) {
      transfer.run(l, operands(), box.token(), 0, {.commands = 193}, [](const launch_context&) {});
    }
    return launches;
  }
};

TEST_P(lane_test, is_full_at_its_limit_and_says_when_there_is_room) {
  open_service({}, {.max_in_flight = 3});
  std::atomic<int> rooms{0};
  std::atomic<int> replies{0};
  test_lane().on_room([&] { ++rooms; });
  gate closed;
  closed.hold(test_lane().stream());
  EXPECT_FALSE(test_lane().want_room());  // there is room, so `room` is not called
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(test_lane().full());
    launch(test_lane(), replies);
  }
  EXPECT_TRUE(test_lane().full());
  EXPECT_EQ(test_lane().in_flight(), 3u);
  EXPECT_TRUE(test_lane().want_room());
  EXPECT_EQ(rooms, 0);
  closed.open();
  settle(*service_);
  EXPECT_EQ(test_lane().in_flight(), 0u);
  EXPECT_FALSE(test_lane().full());
  EXPECT_EQ(rooms, 1);  // once, for any number of completed launches
  EXPECT_EQ(replies, 3);
  EXPECT_FALSE(test_lane().want_room());
}

TEST_P(lane_test, counts_launches_that_follow_an_unfinished_one) {
  auto first = runtime().allocate<std::uint32_t>(4, test_lane().stream());
  auto second = runtime().allocate<std::uint32_t>(4, test_lane().stream());
  lane other_lane(service_);
  lane lane_of_other_actor(service_);
  const int group = 0;
  for (const auto* const l : {&test_lane(), &other_lane}) {
    detail::timeline::of(l->stream())->set_group(&group);
  }
  mailbox<int> box;
  std::size_t launches = 0;
  // Returns whether the launch counts.
  const auto launch_on = [&](lane& l, operands uses) {
    const auto before = l.dependent_launches();
    run_kernel(l, std::move(uses), box.token(), 0, [](const launch_context&) {});
    ++launches;
    return l.dependent_launches() != before;
  };
  const auto reads = [&](const words& x) {
    return access_all(runtime(), read(x, "x"));
  };
  const auto writes = [&](const words& x) {
    return access_all(runtime(), write(x, "x"));
  };
  EXPECT_FALSE(launch_on(test_lane(), writes(first))) << "the allocation does not count";
  (void)box.wait(launches);
  settle(*service_);
  EXPECT_FALSE(launch_on(test_lane(), reads(first))) << "the write has finished";
  (void)box.wait(launches);
  settle(*service_);

  gate closed;
  closed.hold(test_lane().stream());
  closed.hold(other_lane.stream());
  EXPECT_FALSE(launch_on(test_lane(), reads(first)));
  EXPECT_FALSE(launch_on(test_lane(), reads(first))) << "reads have no hazard";
  EXPECT_FALSE(launch_on(other_lane, reads(first)));
  EXPECT_TRUE(launch_on(other_lane, writes(first))) << "a write after reads";
  EXPECT_FALSE(launch_on(lane_of_other_actor, reads(first))) << "the lane is idle";
  EXPECT_FALSE(launch_on(lane_of_other_actor, reads(first))) << "a lane of the other actor wrote";
  EXPECT_FALSE(launch_on(test_lane(), writes(second)));
  EXPECT_TRUE(launch_on(test_lane(), writes(second))) << "a write after a write";
  EXPECT_TRUE(launch_on(test_lane(), reads(second))) << "a read after a write";
  EXPECT_TRUE(launch_on(other_lane, reads(second))) << "likewise on another stream";
  closed.open();
  (void)box.wait(launches);
  settle(*service_);
  EXPECT_FALSE(launch_on(other_lane, writes(second)));
  (void)box.wait(launches);
}

TEST_P(lane_test, is_full_of_device_commands_too) {
  std::atomic<int> rooms{0};
  test_lane().on_room([&] { ++rooms; });
  gate closed;
  closed.hold(test_lane().stream());
  mailbox<int> box;
  const std::size_t launches = fill_with_transfers(test_lane(), box);
  EXPECT_EQ(launches, 5U);  // four launches enqueue fewer than 800 commands
  EXPECT_TRUE(test_lane().want_room());
  closed.open();
  (void)box.wait(launches);
  settle(*service_);
  EXPECT_FALSE(test_lane().full());
  EXPECT_EQ(rooms, 1);
}

TEST_P(lane_test, counts_the_commands_of_the_next_launch) {
  gate closed;
  closed.hold(test_lane().stream());
  mailbox<int> box;
  EXPECT_FALSE(test_lane().full(1'000'000));  // an idle lane takes any launch
  const kernel_envelope large({.library = "", .operation = "large"});
  large.run(test_lane(), operands(), box.token(), 0, {.commands = 700},
            [](const launch_context&) {});
  EXPECT_FALSE(test_lane().full());
  EXPECT_FALSE(test_lane().full(100));
  EXPECT_TRUE(test_lane().full(101));
  EXPECT_FALSE(test_lane().want_room(100));
  EXPECT_TRUE(test_lane().want_room(101));
  closed.open();
  (void)box.wait(1);
  settle(*service_);
  EXPECT_FALSE(test_lane().full(101));
}

TEST_P(lane_test, takes_its_limit_of_device_commands_from_the_options) {
  lane_.reset();
  device_service_options few;
  few.completion = std::get<1>(GetParam());
  few.max_commands = 200;
  service_ = std::make_shared<device_service>(device_, std::move(few));
  const auto expect_launches = [&](lane_options options, std::size_t launches) {
    lane_ = std::make_unique<lane>(service_, options);
    mailbox<int> box;
    gate closed;
    closed.hold(test_lane().stream());
    EXPECT_EQ(fill_with_transfers(test_lane(), box), launches);
    closed.open();
    (void)box.wait(launches);
  };
  expect_launches({}, 2);
  expect_launches({.max_commands = 400}, 3);
}

TEST_P(lane_test, takes_its_fill_without_blocking_the_caller) {
  // Each launch waits for two streams, and none runs before the gate opens.
  const auto first = runtime().create_stream();
  const auto second = runtime().create_stream();
  gate closed;
  closed.hold(first);
  closed.hold(second);
  std::atomic<int> replies{0};
  const auto answered = [&] {
    return reply_token<int>::from([&](int) { ++replies; }, [&](const error&) { ++replies; });
  };
  int launches = 0;
  for (; !test_lane().full(); ++launches) {
    const auto a = runtime().allocate<std::uint32_t>(16, first);
    const auto b = runtime().allocate<std::uint32_t>(16, second);
    run_kernel(test_lane(), access_all(runtime(), read(a, "a"), write(b, "b")), answered(), 0,
               copying(b, a));
  }
  EXPECT_EQ(launches, static_cast<int>(service_->max_in_flight()));
  EXPECT_EQ(replies, 0);
  closed.open();
  settle(*service_);
  EXPECT_EQ(replies, launches);
}

TEST_P(lane_test, never_loses_the_call_for_room) {
  // The lane is filled as fast as it empties; a lost call would make this loop endless.
  open_service({}, {.max_in_flight = 2});
  std::counting_semaphore<> room(0);
  std::atomic<int> replies{0};
  test_lane().on_room([&] { room.release(); });
  constexpr int launches = 3000;
  for (int i = 0; i < launches; ++i) {
    while (test_lane().full()) {
      if (test_lane().want_room()) room.acquire();
    }
    launch(test_lane(), replies);
  }
  settle(*service_);
  EXPECT_EQ(replies, launches);
}

TEST_P(lane_test, a_failed_launch_makes_room_too) {
  open_service({}, {.max_in_flight = 1});
  std::atomic<int> rooms{0};
  test_lane().on_room([&] { ++rooms; });
  gate closed;
  closed.hold(test_lane().stream());
  mailbox<int> box;
  run_kernel(test_lane(), operands(), box.token(), 0,
             [](const launch_context&) { throw error(errc::unsupported, "no"); });
  EXPECT_EQ(box.failure(), errc::unsupported);
  EXPECT_TRUE(test_lane().full());
  EXPECT_TRUE(test_lane().want_room());
  closed.open();
  settle(*service_);
  EXPECT_EQ(rooms, 1);
  EXPECT_FALSE(test_lane().full());
}

TEST_P(lane_test, keeps_its_library_until_the_last_launch_has_completed) {
  gate closed;
  const auto before = runtime().statistics().streams;
  auto library = std::make_shared<int>(1);
  const std::weak_ptr<int> alive = library;
  std::atomic<int> replies{0};
  {
    lane other(service_);
    other.keep(std::move(library));
    closed.hold(other.stream());
    launch(other, replies);
    launch(other, replies);
  }
  EXPECT_FALSE(alive.expired());
  EXPECT_EQ(replies, 0);
  closed.open();
  settle(*service_);
  EXPECT_TRUE(alive.expired());
  EXPECT_EQ(replies, 2);
  EXPECT_EQ(runtime().statistics().streams, before);
}

TEST_P(lane_test, lets_its_library_go_when_nothing_was_launched) {
  auto library = std::make_shared<int>(1);
  const std::weak_ptr<int> alive = library;
  {
    lane other(service_);
    other.keep(std::move(library));
  }
  settle(*service_);
  EXPECT_TRUE(alive.expired());
}

TEST_P(lane_test, lanes_launch_at_the_same_time) {
  constexpr int threads = 4;
  constexpr int launches = 200;
  const auto shared = allocate();
  fill(shared, 0);
  std::vector<std::thread> launching;
  std::atomic<int> replies{0};
  for (int t = 0; t < threads; ++t) {
    launching.emplace_back([&] {
      lane mine(service_);
      for (int i = 0; i < launches; ++i) {
        const auto words_of_lane = runtime().allocate<std::uint32_t>(64, mine.stream());
        run_kernel(mine, access_all(runtime(), write(words_of_lane, "own"), read(shared, "shared")),
                   reply_token<words>::from([&](const words&) { ++replies; }, [](const error&) {}),
                   words_of_lane, copying(words_of_lane, shared));
      }
    });
  }
  for (auto& t : launching) t.join();
  settle(*service_);
  EXPECT_EQ(replies, threads * launches);
}

INSTANTIATE_TEST_SUITE_P(devices, lane_test,
                         testing::Combine(every_device(), asynchronous_strategies()),
                         name_of_where);

// Destroying a library handle may synchronize the whole device, so it must not happen on the
// completion thread.
TEST_P(lane_test, answers_while_the_library_of_another_lane_takes_its_time_to_end) {
  struct slow_to_end {
    explicit slow_to_end(std::binary_semaphore& semaphore) : may_end(semaphore) {}
    slow_to_end(const slow_to_end&) = delete;
    slow_to_end& operator=(const slow_to_end&) = delete;
    ~slow_to_end() { may_end.acquire(); }
    std::binary_semaphore& may_end;
  };
  std::binary_semaphore may_end{0};
  {
    lane other(service_);
    other.keep(std::make_shared<slow_to_end>(may_end));
  }
  std::atomic<int> replies{0};
  for (int i = 0; i < 10; ++i) launch(test_lane(), replies);
  await([&] { return replies == 10; });
  may_end.release();
  settle(*service_);
}

// An allocation that is short of memory waits for the memory of a library that is being destroyed.
TEST(lane_at_the_budgets_limit, gives_back_what_its_library_held) {
  struct slow_to_end {
    gpu_ref<std::uint32_t> held;
    std::atomic<bool>& was_asked;
    ~slow_to_end() {
      await([&] { return was_asked.load(); });
      let_others_run(50);
    }
  };
  constexpr std::size_t count = 200'000;
  const auto budget = std::make_shared<memory_budget>(std::size_t{1'000'000});
  device_service_options options;
  options.runtime.resource =
      make_budget_resource(make_pool_resource(make_async_resource()), budget);
  const auto service = std::make_shared<device_service>(open_host_device(), std::move(options));
  auto& runtime = service->runtime();
  const auto stream = runtime.create_stream();
  std::atomic<bool> was_asked{false};
  {
    lane other(service);
    other.keep(std::shared_ptr<slow_to_end>(new slow_to_end{
        runtime.allocate<std::uint32_t>(count, other.stream(), "of the library"), was_asked}));
  }
  await([&] { return service->engine().pending() == 0; });
  was_asked = true;
  EXPECT_NO_THROW((void)runtime.allocate<std::uint32_t>(count, stream, "of the asker"));
}

TEST(lane_on_loss, lets_its_library_go) {
  const auto device = open_host_device();
  auto service = std::make_shared<device_service>(device);
  auto library = std::make_shared<int>(1);
  const std::weak_ptr<int> alive = library;
  {
    lane other(service);
    other.keep(std::move(library));
    device->lose(error(errc::library_failure, "the cause"));
  }
  settle(*service);
  service.reset();
  await([&] { return alive.expired(); });
}

}  // namespace
