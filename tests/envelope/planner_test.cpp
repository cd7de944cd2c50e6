// SPDX-License-Identifier: Apache-2.0
#include "tests/support/expect_error.hpp"
#include "tests/support/gate.hpp"

#include <sluice/envelope/device_service.hpp>
#include <sluice/runtime/host_device.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>

namespace sluice::test {
namespace {

/// Jobs that hold the planner up until the test lets them go.
class held_planner {
 public:
  explicit held_planner(planner& on) : client_(on) {
    client_.post([this] {
      begun_ = true;
      await([&] { return released_.load(); });
    });
    await([&] { return begun_.load(); });
  }
  held_planner(const held_planner&) = delete;
  held_planner& operator=(const held_planner&) = delete;
  ~held_planner() { release(); }
  void release() noexcept { released_ = true; }

 private:
  std::atomic<bool> begun_{false};
  std::atomic<bool> released_{false};
  planner::client client_;  // destroyed first: waits for the job
};

TEST(planner, lets_clients_take_turns) {
  planner on(open_host_device());
  std::string order;
  std::promise<void> done;
  planner::client first(on);
  planner::client second(on);
  {
    held_planner held(on);
    for (const char name : {'1', '2', '3'}) first.post([&order, name] { order += name; });
    for (const char name : {'a', 'b'}) second.post([&order, name] { order += name; });
    first.post([&] { done.set_value(); });
    held.release();
  }
  done.get_future().get();
  EXPECT_EQ(order, "1a2b3");
}

TEST(planner, drops_the_jobs_of_a_client_that_ends) {
  planner on(open_host_device());
  std::atomic<bool> ran{false};
  held_planner held(on);
  {
    planner::client(on).post([&] { ran = true; });
  }
  held.release();
  std::promise<void> done;
  planner::client last(on);
  last.post([&] { done.set_value(); });
  done.get_future().get();
  EXPECT_FALSE(ran);
}

TEST(planner, takes_no_jobs_for_a_lost_device) {
  const auto device = open_host_device();
  planner on(device);
  planner::client mine(on);
  device->lose(error(errc::device_lost, "a test's"));
  EXPECT_TRUE(throws(errc::device_lost, "a test's", [&] { mine.post([] {}); }));
}

// An actor that is woken by the planner may be the last owner of the service.
TEST(planner, a_job_may_drop_the_last_owner_of_its_service) {
  auto service = std::make_shared<device_service>(open_host_device());
  const auto device = service->runtime().device().id();
  std::promise<void> done;
  auto client = std::make_unique<planner::client>(service->planner());
  auto& on = *client;
  on.post([&, owner = std::move(service),
           client = std::shared_ptr<planner::client>(std::move(client))]() mutable {
    client = nullptr;
    owner = nullptr;
    done.set_value();
  });
  done.get_future().get();
  EXPECT_EQ(device.kind, device_kind::host);
}

TEST(steady_timer, calls_functions_in_the_order_of_their_times) {
  steady_timer on(open_host_device());
  std::string order;
  std::promise<void> done;
  const auto now = on.now();
  using std::chrono::milliseconds;
  on.call_at(now + std::chrono::hours(1), [&] { ADD_FAILURE() << "too early"; });
  on.call_at(now + milliseconds(30), [&] {
    order += 'c';
    done.set_value();
  });
  on.call_at(now + milliseconds(20), [&] { order += 'b'; });
  on.call_at(now + milliseconds(10), [&] { order += 'a'; });
  done.get_future().get();
  EXPECT_EQ(order, "abc");
  EXPECT_GE(on.now(), now + milliseconds(30));
}

TEST(steady_timer, drops_what_is_cancelled) {
  steady_timer on(open_host_device());
  std::promise<void> done;
  const auto kept = std::make_shared<int>();
  const auto now = on.now();
  const auto cancelled = on.call_at(now + std::chrono::milliseconds(20),
                                    [kept] { ADD_FAILURE() << "has been cancelled"; });
  (void)on.call_at(now + std::chrono::milliseconds(40), [&] { done.set_value(); });
  on.cancel(cancelled);
  on.cancel(cancelled);
  on.cancel({});
  EXPECT_EQ(kept.use_count(), 1);
  done.get_future().get();
}

TEST(steady_timer, may_be_destroyed_by_a_function_that_it_calls) {
  auto on = std::make_shared<steady_timer>(open_host_device());
  std::promise<void> done;
  auto& timer = *on;
  timer.call_at(timer.now(), [&done, owner = std::move(on)]() mutable {
    owner = nullptr;
    done.set_value();
  });
  done.get_future().get();
}

}  // namespace
}  // namespace sluice::test
