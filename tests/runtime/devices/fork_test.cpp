// SPDX-License-Identifier: Apache-2.0
// The state that a child of fork() inherits. Each test runs a process of its own, which forks.
#include "runtime/base/sanitizers.hpp"
#include "runtime/sync/fork_safe_mutex.hpp"
#include "runtime/timelines/timeline.hpp"
#include "tests/support/devices.hpp"
#include "tests/support/forked_child.hpp"
#include "tests/support/gate.hpp"
#include "tests/support/random_values.hpp"
#include "tests/support/seed.hpp"
#include "tests/support/small_launches.hpp"

#include <sluice/runtime/device_runtime.hpp>
#include <sluice/runtime/host_device.hpp>
#include <sluice/runtime/host_task.hpp>
#include <sluice/runtime/memory_budget.hpp>
#include <sluice/runtime/stream_pool.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

/// Objects that a program may keep in static storage.
struct kept {
  std::optional<sluice::stream> stream;
  std::optional<stream_pool> pool;
  pooled_stream pooled;
  std::optional<gpu_ref<float>> ref;
  std::vector<block_ref> blocks;
  std::optional<launch_recorder> recorder;
};

void use(device_runtime& runtime, kept& k) {
  k.stream = runtime.create_stream();
  k.pool.emplace(runtime);
  k.pooled = k.pool->acquire();
  k.ref = runtime.allocate<float>(100, *k.stream, "kept");
  for (int i = 0; i < 10; ++i) k.blocks.push_back(runtime.allocate_bytes(100, *k.stream));
  k.blocks.resize(5);  // the reclaim thread, if there is one, frees the rest
  auto recorder = begin_write(*k.ref, *k.stream);
  (void)recorder.commit();
  k.recorder = launch_recorder::strict(k.pooled);
  k.recorder->read(*k.ref);
  k.recorder->preflight();
}

/// Prints how a child of this process ended on standard error, then ends this process.
template <class Function>
[[noreturn]] void end_after_child(kept& mine, Function in_child) {
  report_end_of_child(in_child);
  mine.recorder->cancel();  // the parent continues
  mine.stream->synchronize();
  std::exit(download(*mine.ref, *mine.stream).size() == 100 ? 0 : 2);
}

[[noreturn]] void fork_with_shared_runtime(const std::string& device) {
  static kept older;
  use(device_runtime::get(device), older);
  end_after_child(older, [] { return 0; });
}

[[noreturn]] void fork_with_owned_runtime_and_reclaim_thread(const std::string& device) {
  static kept older;
  static device_runtime runtime(open_device(device),
                                {.resource = make_direct_resource({.tracked = true})});
  static kept younger;
  use(runtime, older);
  use(runtime, younger);
  younger.recorder->cancel();
  end_after_child(older, [] { return 0; });
}

/// Whether `call` is refused because it uses an object of the parent.
bool is_refused(const char* call_name, const std::function<void()>& call) {
  try {
    call();
  } catch (const error& e) {
    const bool says = std::string(e.what()).find("parent process") != std::string::npos;
    if (e.code() == errc::device_lost && says) return true;
    std::fprintf(stderr, "%s: %s\n", call_name, e.what());
  }
  std::fprintf(stderr, "%s was not refused\n", call_name);
  return false;
}

/// Calls every function of the parent's runtime that a child may call. Returns the number of calls
/// without the expected refusal.
int use_in_child(const std::string& device, device_runtime& runtime, kept& k) {
  int wrong = 0;
  const auto refused = [&wrong](const char* call_name, const std::function<void()>& call) {
    if (!is_refused(call_name, call)) ++wrong;
  };
  const auto stream = k.stream->ref();
  refused("get", [&] { (void)device_runtime::get(device); });
  refused("get of another device", [&] { (void)device_runtime::get("cuda:99"); });
  refused("configure", [&] { device_runtime::configure({device_kind::host, 0}, {}); });
  refused("create_stream", [&] { (void)runtime.create_stream(); });
  refused("allocate", [&] { (void)runtime.allocate<float>(16, stream); });
  refused("synchronize", [&] { stream.synchronize(); });
  refused("preflight", [&] { (void)begin_read(*k.ref, stream); });
  refused("prepare_use",
          [&] { (void)runtime.prepare_use(k.ref->block(), stream, access_kind::read); });
  refused("deallocate", [&] { runtime.deallocate(k.ref->block()); });
  refused("acquire of a pool", [&] { (void)k.pool->acquire(); });
  refused("reap_pending", [&] { runtime.reap_pending(); });
  refused("bytes_outstanding", [&] { (void)runtime.bytes_outstanding(); });
  refused("trim_memory", [&] { (void)runtime.trim_memory(); });
  refused("statistics", [&] { (void)runtime.statistics(); });
  if (runtime.shut_down()) ++wrong;
  k.pooled.release();
  k.stream.reset();
  k.ref.reset();
  k.recorder.reset();
  return wrong;
}

[[noreturn]] void fork_and_use(const std::string& device) {
  static kept older;
  auto& runtime = device_runtime::get(device);
  use(runtime, older);
  end_after_child(older, [&] { return use_in_child(device, runtime, older); });
}

[[noreturn]] void fork_while_others_hold_locks() {
  static kept older;
  auto& runtime = device_runtime::get("host");
  use(runtime, older);
  std::atomic<bool> stop{false};
  std::vector<std::thread> busy;
  for (int t = 0; t < 2; ++t) {
    busy.emplace_back([&] {
      auto stream = runtime.create_stream();
      while (!stop.load()) {
        const auto a = runtime.allocate<float>(16, stream);
        auto recorder = begin_write(a, stream);
        (void)recorder.commit();
        (void)device_runtime::get("host");
        runtime.reap_pending();
      }
    });
  }
  std::string ends;
  for (int i = 0; i < 40 && ends.find("signal") == std::string::npos; ++i) {
    ends = end_of_child([&] {
      older.stream.reset();
      older.blocks.clear();
      try {
        (void)device_runtime::get("host");
      } catch (const error&) {
        return 0;
      }
      return 1;
    });
    if (ends != "exited with 0") break;
  }
  stop.store(true);
  for (auto& thread : busy) thread.join();
  std::fprintf(stderr, "the last child %s\n", ends.c_str());
  older.recorder->cancel();
  std::exit(0);
}

[[noreturn]] void fork_while_another_thread_holds(detail::fork_safe_mutex& mutex) {
  std::atomic<bool> held{false};
  std::atomic<bool> forking{false};
  std::atomic<bool> forked{false};
  std::thread holder([&] {
    {
      const std::lock_guard lock(mutex);
      held = true;
      await([&] { return forking.load(); });
      let_others_run(10'000);
    }
    // ThreadSanitizer reports threads that had finished at the fork as leaks of the child.
    await([&] { return forked.load(); });
  });
  await([&] { return held.load(); });
  forking = true;
  report_end_of_child([&] {
    const std::lock_guard lock(mutex);
    return 0;
  });
  forked = true;
  holder.join();
  std::exit(0);
}

/// Whether `use` is refused with `device_lost`.
template <class Use>
bool is_refused(Use use) {
  try {
    use();
  } catch (const error& e) {
    return e.code() == errc::device_lost;
  }
  return false;
}

[[noreturn]] void fork_during_a_submission() {
  static device_runtime runtime(open_device("host"));
  static auto stream = runtime.create_stream();
  static auto block = runtime.allocate<float>(16, stream);
  static auto committed = begin_read(block, stream);
  static auto cancelled = begin_read(block, stream);
  std::atomic<bool> inside{false};
  std::atomic<bool> forked{false};
  std::thread submitting([&] {
    (void)detail::timeline::of(stream)->unless_retired([&](native_stream*) {
      inside = true;
      await([&] { return forked.load(); });
    });
  });
  await([&] { return inside.load(); });
  report_end_of_child([&] {
    cancelled.cancel();
    return is_refused([&] { stream.synchronize(); }) &&
                   is_refused([&] { (void)committed.commit(); }) && is_refused([&] {
                     (void)runtime.record_use(block.block(), stream, access_kind::read);
                   })
               ? 0
               : 1;
  });
  forked = true;
  submitting.join();
  cancelled.cancel();
  (void)committed.commit();
  stream.synchronize();
  std::exit(0);
}

[[noreturn]] void fork_and_compute_in_the_child() {
  auto random = make_generator();
  const auto values = random_values<std::uint32_t>(random, 1000);
  const auto compute = [&values](device_runtime& runtime) {
    const auto stream = runtime.create_stream();
    return download(upload(runtime, stream, values), stream) == values;
  };
  device_runtime parents(open_host_device());
  if (!compute(parents)) std::exit(2);
  report_end_of_child([&] {
    // Shared runtimes work, too, because the parent has made none.
    device_runtime child_runtime(open_host_device());
    return compute(child_runtime) && compute(device_runtime::get("host")) ? 0 : 1;
  });
  std::exit(compute(parents) ? 0 : 2);
}

[[noreturn]] void fork_with_budget() {
  const auto budget = std::make_shared<memory_budget>(std::size_t{1} << 20);
  const auto on_budget = [](const std::shared_ptr<memory_budget>& charged) {
    return runtime_options{.resource = make_budget_resource(make_direct_resource(), charged)};
  };
  device_runtime parents(open_host_device(), on_budget(budget));
  const auto stream = parents.create_stream();
  const auto held = parents.allocate_bytes(1 << 20, stream);
  report_end_of_child([&] {
    const auto child_budget = std::make_shared<memory_budget>(std::size_t{1} << 20);
    device_runtime runtime(open_host_device(), on_budget(child_budget));
    const auto child_stream = runtime.create_stream();
    const auto block = runtime.allocate_bytes(1 << 20, child_stream);
    if (child_budget->snapshot().held != std::size_t{1} << 20) return 2;
    const bool refused =
        is_refused("a snapshot", [&] { (void)budget->snapshot(); }) &&
        is_refused("a reservation", [&] { const memory_reservation reservation(budget, 1); }) &&
        is_refused("a runtime", [&] {
          const device_runtime other_runtime(open_host_device(), on_budget(budget));
        });
    return refused ? 0 : 1;
  });
  std::exit(budget->snapshot().held == std::size_t{1} << 20 ? 0 : 2);
}

/// Skips a test that forks with threads.
void skip_under_address_sanitizer() {
#if defined(SLUICE_ADDRESS_SANITIZER)
  GTEST_SKIP() << "AddressSanitizer's locks may be held at the fork, and LeakSanitizer cannot stop "
                  "the parent's threads in a child";
#endif
}

class fork_with : public named_device_test {
 protected:
  void SetUp() override {
    skip_under_address_sanitizer();
    if (!IsSkipped()) named_device_test::SetUp();
  }
};
INSTANTIATE_TEST_SUITE_P(devices, fork_with, every_device(), parameter_name);

class fork_with_threads : public ::testing::Test {
 protected:
  void SetUp() override { skip_under_address_sanitizer(); }
};

class fork_of_the_host : public ::testing::Test {
 protected:
  void SetUp() override {
    skip_under_address_sanitizer();
#if defined(SLUICE_THREAD_SANITIZER)
    GTEST_SKIP() << "ThreadSanitizer lets no child of a process with threads start threads";
#endif
  }
};

TEST_P(fork_with, a_shared_runtime_lets_the_child_exit) {
  EXPECT_EXIT(fork_with_shared_runtime(GetParam()), ::testing::ExitedWithCode(0),
              "^the child exited with 0\n$");
}
TEST_P(fork_with, an_owned_runtime_and_a_reclaim_thread_lets_the_child_exit) {
  EXPECT_EXIT(fork_with_owned_runtime_and_reclaim_thread(GetParam()), ::testing::ExitedWithCode(0),
              "^the child exited with 0\n$");
}
TEST_P(fork_with, a_runtime_refuses_the_child) {
  EXPECT_EXIT(fork_and_use(GetParam()), ::testing::ExitedWithCode(0),
              "^the child exited with 0\n$");
}
TEST_F(fork_with_threads, that_hold_locks_hangs_no_child) {
#if defined(SLUICE_THREAD_SANITIZER)
  GTEST_SKIP() << "a lock of ThreadSanitizer's own allocator may be held at the fork";
#endif
  EXPECT_EXIT(fork_while_others_hold_locks(), ::testing::ExitedWithCode(0),
              "^the last child exited with 0\n$");
}
TEST_F(fork_with_threads, waits_until_no_thread_holds_a_lock_of_the_process) {
  EXPECT_EXIT(fork_while_another_thread_holds(*new detail::fork_safe_mutex),
              ::testing::ExitedWithCode(0), "^the child exited with 0\n$");
}
TEST_F(fork_with_threads, that_submit_leaves_the_child_refusals) {
  EXPECT_EXIT(fork_during_a_submission(), ::testing::ExitedWithCode(0),
              "^the child exited with 0\n$");
}
TEST_F(fork_of_the_host, refuses_the_child_a_budget_of_the_parent) {
  EXPECT_EXIT(fork_with_budget(), ::testing::ExitedWithCode(0), "^the child exited with 0\n$");
}
TEST_F(fork_of_the_host, leaves_the_child_devices_of_its_own) {
  EXPECT_EXIT(fork_and_compute_in_the_child(), ::testing::ExitedWithCode(0),
              "the child exited with 0\n$");
}

}  // namespace
}  // namespace sluice::test
