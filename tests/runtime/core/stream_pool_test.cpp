// SPDX-License-Identifier: Apache-2.0
#include "runtime/core/runtime_core.hpp"
#include "tests/support/compute_sanitizer.hpp"
#include "tests/support/devices.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/forwarding_device.hpp"
#include "tests/support/gate.hpp"
#include "tests/support/seed.hpp"
#include "tests/support/small_launches.hpp"

#include <sluice/runtime/device_runtime.hpp>
#include <sluice/runtime/host_device.hpp>
#include <sluice/runtime/stream_pool.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

static_assert(!std::is_convertible_v<pooled_stream, stream_ref>, "it would name another's stream");
static_assert(std::is_convertible_v<pooled_stream&, stream_ref>);

class stream_pool_on : public named_device_test {
 protected:
  void SetUp() override {
    named_device_test::SetUp();
    if (IsSkipped()) return;
    runtime_ = std::make_unique<device_runtime>(open_device(GetParam()));
  }
  [[nodiscard]] device_runtime& runtime() const { return *runtime_; }
  void end_runtime() { runtime_.reset(); }

 private:
  std::unique_ptr<device_runtime> runtime_;
};
INSTANTIATE_TEST_SUITE_P(devices, stream_pool_on, every_device(), parameter_name);

TEST_P(stream_pool_on, hands_out_distinct_streams_and_makes_no_more_than_it_needs) {
  const auto before = runtime().statistics().streams;
  stream_pool pool(runtime(), {.size = 3});
  EXPECT_EQ(runtime().statistics().streams, before);
  auto a = pool.acquire();
  auto b = pool.acquire();
  EXPECT_NE(a.id(), b.id());
  EXPECT_EQ(pool.acquired(), 2u);
  EXPECT_EQ(runtime().statistics().streams, before + 2);
  const auto id = b.id();
  b.release();
  EXPECT_FALSE(b);
  EXPECT_FALSE(b.ref());
  // Only a query finds completed work, and `acquire` queries.
  await([&] {
    b = pool.acquire();
    return b.id() == id || runtime().statistics().streams == before + 3;
  });
  EXPECT_LE(pool.acquired(), 2u);
}

TEST_P(stream_pool_on, says_when_all_are_out) {
  stream_pool pool(runtime(), {.size = 2});
  auto a = pool.acquire();
  const auto b = pool.acquire();
  EXPECT_TRUE(throws(errc::overloaded, "2 of 2 streams are in use", [&] { (void)pool.acquire(); }));
  EXPECT_EQ(pool.try_acquire(), std::nullopt);
  const auto id = a.id();
  a = {};
  std::optional<pooled_stream> again;
  await([&] { return (again = pool.try_acquire()).has_value(); });
  EXPECT_EQ(again->id(), id);
}

TEST_P(stream_pool_on, hands_a_stream_out_again_only_when_its_work_is_done) {
  stream_pool pool(runtime(), {.size = 1});
  auto mine = pool.acquire();
  gate closed;
  closed.hold(mine);  // no recorder knows this work
  mine.release();
  EXPECT_TRUE(throws(errc::overloaded, "0 of 1 streams are in use", [&] { (void)pool.acquire(); }));
  EXPECT_EQ(pool.acquired(), 0u);
  closed.open();
  await([&] { return pool.try_acquire().has_value(); });
}

TEST_P(stream_pool_on, gives_streams_that_compute) {
  stream_pool pool(runtime(), {.size = 2, .priority = stream_priority::high});
  const auto stream = pool.acquire();
  const auto a = runtime().allocate<std::uint32_t>(1000, stream);
  (void)launch_fill(a, 42, stream);
  EXPECT_EQ(download(a, stream), std::vector<std::uint32_t>(1000, 42));
}

TEST_P(stream_pool_on, may_go_before_its_streams_and_after_the_runtime) {
  pooled_stream outlives;
  {
    stream_pool pool(runtime(), {.size = 2});
    outlives = pool.acquire();
    (void)pool.acquire();
  }
  EXPECT_TRUE(outlives.ref());
  auto& itself = outlives;
  outlives = std::move(itself);
  EXPECT_TRUE(outlives);
  stream_pool late(runtime(), {.size = 1});
  auto also = late.acquire();
  end_runtime();
  also.release();
  EXPECT_TRUE(throws(errc::shutting_down, "", [&] { (void)late.acquire(); }));
  outlives = {};
}

TEST_P(stream_pool_on, serves_threads_at_a_time) {
  stream_pool pool(runtime(), {.size = 4});
  std::atomic<int> served{0};
  std::mutex mutex;
  std::set<std::uint32_t> out;
  std::vector<std::thread> threads;
  for (int t = 0; t < 6; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 100;) {
        auto mine = pool.try_acquire();
        if (!mine) {
          std::this_thread::yield();
          continue;
        }
        {
          const std::lock_guard lock(mutex);
          EXPECT_TRUE(out.insert(mine->id().index).second) << "handed out twice";
        }
        ++served;
        ++i;
        const std::lock_guard lock(mutex);
        out.erase(mine->id().index);
        mine.reset();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(served, 600);
  EXPECT_EQ(pool.acquired(), 0u);
}

/// A host device that counts queries of events.
class asked_device final : public forwarding_device {
 public:
  asked_device() : forwarding_device({device_kind::host, 0}, open_host_device()) {}
  std::function<void()> as_it_is_asked = [] {
  };
  event_state query(native_event* e, std::uint64_t value) noexcept override {
    as_it_is_asked();
    return forwarding_device::query(e, value);
  }
};

TEST(stream_pool, asks_about_a_few_busy_streams_and_lets_others_use_it_meanwhile) {
  const auto device = std::make_shared<asked_device>();
  device_runtime runtime(device);
  constexpr std::size_t size = 6 * stream_pool::max_asked;
  stream_pool pool(runtime, {.size = size});
  gate closed;
  {
    std::vector<pooled_stream> all;
    while (all.size() < size) all.push_back(pool.acquire());
    for (const auto& one : all) closed.hold(one);
  }
  std::size_t queries = 0;
  device->as_it_is_asked = [&] {
    ++queries;
    std::thread([&] { EXPECT_EQ(pool.acquired(), 0u); }).join();
  };
  EXPECT_EQ(pool.try_acquire(), std::nullopt);
  EXPECT_GT(queries, 0u);
  EXPECT_LE(queries, stream_pool::max_asked);
  device->as_it_is_asked = [] {
  };
  closed.open();
  std::vector<pooled_stream> again;
  await([&] {
    if (auto one = pool.try_acquire()) again.push_back(std::move(*one));
    return again.size() == size;
  });
}

TEST(stream_pool, refuses_sizes_that_make_no_sense) {
  device_runtime runtime(open_host_device());
  for (const std::size_t size : {std::size_t{0}, stream_pool::largest_size + 1, ~std::size_t{0}}) {
    EXPECT_TRUE(
        throws(errc::invalid_argument, "size", [&] { stream_pool pool(runtime, {.size = size}); }));
  }
}

TEST(stream_pool, on_a_lost_device_says_so) {
  device_runtime runtime(open_host_device());
  stream_pool pool(runtime, {.size = 1});
  auto mine = pool.acquire();
  runtime.device().lose(error(errc::device_lost, "for this test"));
  mine.release();
  EXPECT_TRUE(throws(errc::device_lost, "for this test", [&] { (void)pool.acquire(); }));
}

}  // namespace
}  // namespace sluice::test
