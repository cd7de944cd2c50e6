// SPDX-License-Identifier: Apache-2.0
// The end of shared runtimes. device_runtime_test covers their creation, teardown_test the exit of
// a process.
#include "runtime/core/shared_runtimes.hpp"

#include "tests/support/expect_error.hpp"
#include "tests/support/gate.hpp"
#include "tests/support/seed.hpp"

#include <sluice/runtime/host_device.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <numeric>
#include <thread>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

device_id host(int ordinal) {
  return {device_kind::host, ordinal};
}

TEST(shared_runtimes, end_in_the_opposite_order_of_their_making) {
  auto random = make_generator();
  for (int round = 0; round < 10; ++round) {
    std::vector<int> order(6);
    std::iota(order.begin(), order.end(), 0);
    std::ranges::shuffle(order, random);
    std::vector<int> gone;
    detail::shared_runtimes all([&](device_id id) {
      const auto opened = open_host_device({.ordinal = id.ordinal});
      return std::shared_ptr<device>(opened.get(),
                                     [&gone, id, opened](device*) { gone.push_back(id.ordinal); });
    });
    for (const auto ordinal : order) EXPECT_EQ(all.get(host(ordinal)).device().id(), host(ordinal));
    (void)all.get(host(order[2]));  // does not change the order
    all.end();
    std::ranges::reverse(order);
    EXPECT_EQ(gone, order);
    all.end();  // a second call has no effect
  }
}

TEST(shared_runtimes, refuse_everything_from_their_end_on) {
  int refused = 0;
  detail::shared_runtimes all(
      [](device_id id) { return open_host_device({.ordinal = id.ordinal}); });
  const auto refuses = [&] {
    for (const int ordinal : {0, 1, 2}) {
      EXPECT_TRUE(throws(errc::shutting_down, "host:", [&] { (void)all.get(host(ordinal)); }));
      EXPECT_TRUE(throws(errc::shutting_down, "host:", [&] { all.configure(host(ordinal), {}); }));
    }
    ++refused;
  };
  // The options are destroyed last, after the runtimes.
  auto captured = std::shared_ptr<const int>(nullptr, [&](const int*) { refuses(); });
  all.configure(host(2), [held = std::move(captured)] { return runtime_options{}; });
  (void)all.get(host(0));
  auto& last = all.get(host(1));
  // The first runtime is refused before the last one has been destroyed.
  const auto stream = last.create_stream();
  last.device().notify(stream.ref().native(), [&] {
    await([&] {
      try {
        (void)all.get(host(0));
        return false;
      } catch (const error& e) {
        return e.code() == errc::shutting_down;
      }
    });
    refuses();
  });
  (void)last.record_use(last.allocate_bytes(16, stream), stream, access_kind::write);
  all.end();
  EXPECT_EQ(refused, 2);
  refuses();
}

TEST(shared_runtimes, that_are_being_made_at_the_end_are_not_shared) {
  std::atomic<bool> making{false};
  std::atomic<bool> ended{false};
  std::atomic<int> devices{0};
  detail::shared_runtimes all([&](device_id id) {
    const auto opened = open_host_device({.ordinal = id.ordinal});
    ++devices;
    return std::shared_ptr<device>(opened.get(), [&devices, opened](device*) { --devices; });
  });
  all.configure(host(0), [&] {
    making = true;
    await([&] { return ended.load(); });
    return runtime_options{};
  });
  const auto refused = [&] {
    EXPECT_TRUE(throws(errc::shutting_down, "host:0", [&] { (void)all.get(host(0)); }));
  };
  std::thread maker(refused);
  await([&] { return making.load(); });
  std::thread waits(refused);
  all.end();  // waits for neither thread
  waits.join();
  ended = true;
  maker.join();
  EXPECT_EQ(devices.load(), 0) << "what was made has gone";
}

}  // namespace
}  // namespace sluice::test
