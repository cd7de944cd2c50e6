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
  explicit held_planner(planner& test_planner,
                        planner::job_length length = planner::job_length::short_job)
      : client_(test_planner) {
    client_.post(
        [this] {
          begun_ = true;
          await([&] { return released_.load(); });
        },
        length);
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
  planner test_planner(open_host_device());
  std::string order;
  std::promise<void> done;
  planner::client first(test_planner);
  planner::client second(test_planner);
  {
    held_planner held(test_planner);
    for (const char name : {'1', '2', '3'}) first.post([&order, name] { order += name; });
    for (const char name : {'a', 'b'}) second.post([&order, name] { order += name; });
    first.post([&] { done.set_value(); });
    held.release();
  }
  done.get_future().get();
  EXPECT_EQ(order, "1a2b3");
}

// A client that has come while a job of another one ran does not wait for the next one of that.
TEST(planner, lets_a_new_client_come_before_the_second_job_of_another) {
  planner test_planner(open_host_device());
  std::string order;
  std::promise<void> done;
  std::atomic<bool> begun{false};
  std::atomic<bool> released{false};
  planner::client first(test_planner);
  planner::client second(test_planner);
  first.post([&] {
    begun = true;
    await([&] { return released.load(); });
    order += '1';
  });
  first.post([&] {
    order += '2';
    done.set_value();
  });
  await([&] { return begun.load(); });
  second.post([&] { order += 'a'; });
  released = true;
  done.get_future().get();
  EXPECT_EQ(order, "1a2");
}

TEST(planner, makes_short_jobs_while_a_long_one_runs) {
  planner test_planner(open_host_device());
  held_planner held(test_planner, planner::job_length::long_job);
  std::promise<void> done;
  planner::client other(test_planner);
  other.post([&] { done.set_value(); });
  done.get_future().get();  // otherwise never
}

TEST(planner, with_one_thread_lets_short_jobs_pass_a_bounded_number_of_times) {
  planner test_planner(open_host_device(), 1);
  std::string order;
  std::promise<void> done;
  planner::client many(test_planner);
  planner::client few(test_planner);
  {
    held_planner held(test_planner);
    few.post([&] { order += 'L'; }, planner::job_length::long_job);
    for (int i = 0; i < 20; ++i) many.post([&] { order += 's'; });
    many.post([&] { done.set_value(); });
    held.release();
  }
  done.get_future().get();
  EXPECT_EQ(order, std::string(16, 's') + 'L' + std::string(4, 's'));
}

TEST(planner, begins_idle_jobs_while_no_other_job_waits) {
  planner test_planner(open_host_device(), 1);
  std::string order;
  std::promise<void> done;
  planner::client idle(test_planner);
  planner::client others(test_planner);
  {
    held_planner held(test_planner);
    idle.post([&] { order += 'i'; }, planner::job_length::idle_job);
    idle.post(
        [&] {
          order += 'j';
          done.set_value();
        },
        planner::job_length::idle_job);
    others.post([&] { order += 'L'; }, planner::job_length::long_job);
    for (int i = 0; i < 20; ++i) others.post([&] { order += 's'; });
    held.release();
  }
  done.get_future().get();
  EXPECT_EQ(order, std::string(16, 's') + 'L' + std::string(4, 's') + "ij");
}

TEST(planner, runs_idle_jobs_with_two_threads) {
  planner test_planner(open_host_device());
  std::promise<void> done;
  planner::client idle(test_planner);
  idle.post([&] { done.set_value(); }, planner::job_length::idle_job);
  done.get_future().get();
}

/// An idle job that ends when others wait.
class polite_job {
 public:
  explicit polite_job(planner& test_planner) {
    client_.emplace(test_planner);
    client_->post(
        [this] {
          begun_ = true;
          await([this] { return client_->others_wait(); });
          ended_ = true;
        },
        planner::job_length::idle_job);
    await([this] { return begun_.load(); });
  }
  [[nodiscard]] bool has_ended() const noexcept { return ended_; }
  void destroy_client() {
    client_->drop_waiting();
    client_.reset();
  }

 private:
  std::atomic<bool> begun_{false};
  std::atomic<bool> ended_{false};
  std::optional<planner::client> client_;
};

TEST(planner, tells_an_idle_job_that_others_wait) {
  for (const auto length : {planner::job_length::short_job, planner::job_length::long_job}) {
    planner test_planner(open_host_device(), 1);
    polite_job idle(test_planner);
    planner::client other(test_planner);
    std::promise<bool> seen;
    other.post([&] { seen.set_value(idle.has_ended()); }, length);
    EXPECT_TRUE(seen.get_future().get());
  }
}

TEST(planner, tells_an_idle_job_of_the_end_of_its_client) {
  planner test_planner(open_host_device(), 1);
  polite_job idle(test_planner);
  idle.destroy_client();  // otherwise waits for ever
  EXPECT_TRUE(idle.has_ended());
}

TEST(planner, tells_an_idle_job_of_its_own_end) {
  auto test_planner = std::make_unique<planner>(open_host_device(), 1);
  polite_job idle(*test_planner);
  test_planner.reset();
  EXPECT_TRUE(idle.has_ended());
}

// The thread that does not run the client's job waits for the one that does.
TEST(planner, waits_for_a_long_job_of_a_client_that_a_short_job_drops) {
  planner test_planner(open_host_device());
  std::atomic<bool> begun{false};
  std::atomic<bool> released{false};
  std::atomic<bool> ended{false};
  std::promise<bool> seen;
  auto dropped = std::make_unique<planner::client>(test_planner);
  dropped->post(
      [&] {
        begun = true;
        await([&] { return released.load(); });
        let_others_run(1000);
        ended = true;
      },
      planner::job_length::long_job);
  await([&] { return begun.load(); });
  planner::client other(test_planner);
  other.post([&, client = std::shared_ptr<planner::client>(std::move(dropped))]() mutable {
    released = true;
    client = nullptr;
    seen.set_value(ended);
  });
  EXPECT_TRUE(seen.get_future().get());
}

TEST(planner, drops_the_jobs_of_a_client_that_ends) {
  planner test_planner(open_host_device());
  std::atomic<bool> ran{false};
  held_planner held(test_planner);
  {
    planner::client(test_planner).post([&] { ran = true; });
  }
  held.release();
  std::promise<void> done;
  planner::client last(test_planner);
  last.post([&] { done.set_value(); });
  done.get_future().get();
  EXPECT_FALSE(ran);
}

TEST(planner, takes_no_jobs_for_a_lost_device) {
  const auto device = open_host_device();
  planner test_planner(device);
  planner::client client(test_planner);
  device->lose(error(errc::device_lost, "a test's"));
  EXPECT_TRUE(throws(errc::device_lost, "a test's", [&] { client.post([] {}); }));
}

// An actor that is woken by the planner may be the last owner of the service.
TEST(planner, a_job_may_drop_the_last_owner_of_its_service) {
  auto service = std::make_shared<device_service>(open_host_device());
  const auto device = service->runtime().device().id();
  std::promise<void> done;
  auto client = std::make_unique<planner::client>(service->planner());
  auto& test_planner = *client;
  test_planner.post([&, owner = std::move(service),
                     client = std::shared_ptr<planner::client>(std::move(client))]() mutable {
    client = nullptr;
    owner = nullptr;
    done.set_value();
  });
  done.get_future().get();
  EXPECT_EQ(device.kind, device_kind::host);
}

TEST(steady_timer, calls_functions_in_the_order_of_their_times) {
  steady_timer test_timer(open_host_device());
  std::string order;
  std::promise<void> done;
  const auto now = test_timer.now();
  using std::chrono::milliseconds;
  test_timer.call_at(now + std::chrono::hours(1), [&] { ADD_FAILURE() << "too early"; });
  test_timer.call_at(now + milliseconds(30), [&] {
    order += 'c';
    done.set_value();
  });
  test_timer.call_at(now + milliseconds(20), [&] { order += 'b'; });
  test_timer.call_at(now + milliseconds(10), [&] { order += 'a'; });
  done.get_future().get();
  EXPECT_EQ(order, "abc");
  EXPECT_GE(test_timer.now(), now + milliseconds(30));
}

TEST(steady_timer, drops_what_is_cancelled) {
  steady_timer test_timer(open_host_device());
  std::promise<void> done;
  const auto owned = std::make_shared<int>();
  const auto now = test_timer.now();
  const auto cancelled = test_timer.call_at(now + std::chrono::milliseconds(20),
                                            [owned] { ADD_FAILURE() << "has been cancelled"; });
  (void)test_timer.call_at(now + std::chrono::milliseconds(40), [&] { done.set_value(); });
  test_timer.cancel(cancelled);
  test_timer.cancel(cancelled);
  test_timer.cancel({});
  EXPECT_EQ(owned.use_count(), 1);
  done.get_future().get();
}

TEST(steady_timer, may_be_destroyed_by_a_function_that_it_calls) {
  auto test_timer = std::make_shared<steady_timer>(open_host_device());
  std::promise<void> done;
  auto& timer = *test_timer;
  timer.call_at(timer.now(), [&done, owner = std::move(test_timer)]() mutable {
    owner = nullptr;
    done.set_value();
  });
  done.get_future().get();
}

}  // namespace
}  // namespace sluice::test
