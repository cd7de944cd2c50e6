// SPDX-License-Identifier: Apache-2.0
// Actors launch on threads that serve one device and have made it their current one.
#include "tests/actors/session.hpp"
#include "tests/support/forwarding_device.hpp"

#include <sluice/actors/blas.hpp>

#include <algorithm>
#include <mutex>
#include <set>
#include <thread>

namespace sluice::test {
namespace {

/// Notes which threads are prepared for it, and which record launches.
class watched_device final : public forwarding_device {
 public:
  watched_device() : forwarding_device({device_kind::host, 0}, open_host_device()) {}

  void prepare_own_thread() noexcept override { note(prepared_); }
  void record(native_event* e, std::uint64_t value, native_stream* s) override {
    note(recording_);
    forwarding_device::record(e, value, s);
  }

  using threads = std::set<std::thread::id>;
  [[nodiscard]] threads prepared() const { return copy_of(prepared_); }
  /// Since the last call.
  [[nodiscard]] threads recording() {
    const std::lock_guard lock(mutex_);
    return std::exchange(recording_, {});
  }

 private:
  void note(threads& in) {
    const std::lock_guard lock(mutex_);
    in.insert(std::this_thread::get_id());
  }
  [[nodiscard]] threads copy_of(const threads& source) const {
    const std::lock_guard lock(mutex_);
    return source;
  }

  mutable std::mutex mutex_;
  threads prepared_;
  threads recording_;
};

TEST(threads_of_actors, are_prepared_before_they_launch) {
  if (!detached_actors_have_own_threads) GTEST_SKIP() << "this CAF lends threads from a pool";
  using product = gpu_ref<float>;
  constexpr std::int64_t n = 8;
  configured configuration;
  caf::actor_system system{configuration};
  const auto watched = std::make_shared<watched_device>();
  scoped_device device(system, std::make_shared<device_service>(watched));
  const auto blas = device.blas();
  const auto a = ask<tensor>(system, device.actor(), allocate{.shape = extents{n * n}}).as<float>();
  (void)watched->recording();
  (void)ask<tensor>(system, device.actor(), fill{.value = 1, .y = a});
  const auto by_device_actor = watched->recording();
  ask<product>(system, blas, sgemm{.m = n, .n = n, .k = n, .a = a, .b = a});
  const auto by_blas_actor = watched->recording();
  const auto prepared = watched->prepared();
  for (const auto& recording : {by_device_actor, by_blas_actor}) {
    EXPECT_EQ(recording.size(), 1u);
    EXPECT_TRUE(
        std::includes(prepared.begin(), prepared.end(), recording.begin(), recording.end()));
  }
  EXPECT_NE(by_device_actor, by_blas_actor);
  EXPECT_EQ(prepared.count(std::this_thread::get_id()), 0u);
}

}  // namespace
}  // namespace sluice::test
