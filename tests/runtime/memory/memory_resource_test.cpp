// SPDX-License-Identifier: Apache-2.0
// The conformance suite for all memory resources on all devices.
#include "tests/support/compute_sanitizer.hpp"
#include "tests/support/devices.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/gate.hpp"
#include "tests/support/seed.hpp"
#include "tests/support/small_launches.hpp"
#include "tests/support/use_state.hpp"

#include <sluice/runtime/host_device.hpp>
#include <sluice/runtime/memory_adaptors.hpp>
#include <sluice/runtime/memory_budget.hpp>
#include <sluice/runtime/memory_guard.hpp>
#include <sluice/runtime/memory_log.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

struct stack {
  std::string device;
  std::string name;
  std::unique_ptr<memory_resource> (*make)();
  bool tracked;
  bool ordered = false;  // an allocation counts as a use
  bool pooled = false;
};

std::vector<stack> every_stack() {
  std::vector<stack> all;
  for (const char* device : {"host", "cuda"}) {
    all.push_back({device, "async", [] { return make_async_resource(); }, true, true});
    all.push_back({device, "direct", [] { return make_direct_resource(); }, false});
    all.push_back(
        {device, "direct_tracked", [] { return make_direct_resource({.tracked = true}); }, true});
    all.push_back({device, "pool_async", [] { return make_pool_resource(make_async_resource()); },
                   true, true, true});
    all.push_back({device, "statistics_pool_failing_async",
                   [] {
                     return make_statistics_resource(
                         make_pool_resource(make_failing_resource(
                             make_async_resource(), std::make_shared<fault_countdown>())),
                         std::make_shared<memory_statistics>());
                   },
                   true, true, true});
    all.push_back({device, "default", [] { return make_default_resource(); }, true, true, true});
    all.push_back({device, "budget_direct_tracked",
                   [] { return make_budget_resource(make_direct_resource({.tracked = true})); },
                   true});
    all.push_back({device, "pool_direct",
                   [] { return make_pool_resource(make_direct_resource({.tracked = true})); }, true,
                   false, true});
    all.push_back({device, "logging_pool_async",
                   [] {
                     return make_logging_resource(make_pool_resource(make_async_resource()),
                                                  std::make_shared<memory_log>());
                   },
                   true, true, true});
    all.push_back(
        {device, "guard_async", [] { return make_guard_resource(make_async_resource()); }, true});
    all.push_back({device, "guard_direct_tracked",
                   [] { return make_guard_resource(make_direct_resource({.tracked = true})); },
                   true});
    all.push_back({device, "logging_guard_default",
                   [] {
                     return make_logging_resource(make_guard_resource(make_default_resource()),
                                                  std::make_shared<memory_log>());
                   },
                   true});
    all.push_back({device, "guard_pool_direct",
                   [] {
                     return make_guard_resource(
                         make_pool_resource(make_direct_resource({.tracked = true})),
                         {.quarantine_blocks = 3});
                   },
                   true});
    all.push_back({device, "pool_guard_async",
                   [] { return make_pool_resource(make_guard_resource(make_async_resource())); },
                   true, false, true});
  }
  return all;
}

class resource_on : public ::testing::TestWithParam<stack> {
 protected:
  void SetUp() override {
    if (!has_device(GetParam().device)) {
      GTEST_SKIP() << "this machine has no device '" << GetParam().device << "'";
    }
    runtime_ = std::make_unique<device_runtime>(open_device(GetParam().device),
                                                runtime_options{.resource = GetParam().make()});
    stream_ = runtime_->create_stream();
  }
  void TearDown() override {
    if (!runtime_) return;
    EXPECT_EQ(runtime_->bytes_outstanding(), 0u) << "a test left memory behind";
    stream_ = {};
    runtime_.reset();
  }

  [[nodiscard]] device_runtime& runtime() const { return *runtime_; }
  [[nodiscard]] stream_ref stream() const { return stream_; }
  [[nodiscard]] bool tracked() const { return GetParam().tracked; }
  [[nodiscard]] bool on_host() const { return GetParam().device == "host"; }

 private:
  std::unique_ptr<device_runtime> runtime_;
  sluice::stream stream_;
};
INSTANTIATE_TEST_SUITE_P(stacks, resource_on, ::testing::ValuesIn(every_stack()),
                         [](const auto& parameter) {
                           return parameter.param.device + "_" + parameter.param.name;
                         });

TEST_P(resource_on, says_what_it_is) {
  EXPECT_EQ(runtime().supports_use_tracking(), tracked());
  EXPECT_FALSE(detail::runtime_core::of(runtime())->resource().name().empty());
}

TEST_P(resource_on, aligns_to_256_bytes) {
  std::vector<block_ref> blocks;
  for (const std::size_t bytes : {1, 3, 8, 255, 256, 257, 4096, 65'537, 1'000'003}) {
    blocks.push_back(runtime().allocate_bytes(bytes, stream()));
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(blocks.back().address()) % 256, 0u) << bytes;
    EXPECT_EQ(blocks.back().bytes(), bytes);
  }
}

TEST_P(resource_on, gives_blocks_that_do_not_overlap) {
  auto generator = make_generator();
  std::vector<std::pair<std::uintptr_t, std::size_t>> ranges;
  std::vector<block_ref> blocks;
  for (int i = 0; i < 60; ++i) {
    const std::size_t bytes = 1 + generator() % 10'000;
    blocks.push_back(runtime().allocate_bytes(bytes, stream()));
    const auto begin = reinterpret_cast<std::uintptr_t>(blocks.back().address());
    for (const auto& [other, size] : ranges) {
      EXPECT_TRUE(begin + bytes <= other || other + size <= begin);
    }
    ranges.emplace_back(begin, bytes);
  }
}

TEST_P(resource_on, zero_bytes_are_a_block_without_memory) {
  const auto empty = runtime().allocate<float>(0, stream(), "nothing");
  EXPECT_TRUE(empty);
  EXPECT_EQ(empty.size(), 0u);
  EXPECT_EQ(empty.data(), nullptr);
  EXPECT_FALSE(empty.stale());
  EXPECT_EQ(runtime().statistics().blocks, 1u);
  EXPECT_EQ(runtime().bytes_outstanding(), 0u);
  if (!tracked()) return;
  auto recorder = launch_recorder::strict(stream());
  recorder.read_write(empty);
  recorder.preflight();
  stream().device().copy(empty.data(), empty.data(), 0, copy_direction::device_to_device,
                         stream().native());
  (void)recorder.commit();
}

TEST_P(resource_on, a_huge_size_is_out_of_memory) {
  constexpr auto most = std::numeric_limits<std::size_t>::max();
  for (const std::size_t bytes :
       {most, most - 255, most / 2, most / 2 + 1, std::size_t{1} << 52U}) {
    EXPECT_TRUE(throws(errc::out_of_memory, "", [&] {
      (void)runtime().allocate_bytes(bytes, stream());
    })) << bytes;
  }
  EXPECT_TRUE(throws(errc::invalid_argument, "overflow",
                     [&] { (void)runtime().allocate<double>(most / 8 + 1, stream()); }));
  EXPECT_EQ(runtime().statistics().blocks, 0u);
  EXPECT_EQ(runtime().bytes_outstanding(), 0u);
  EXPECT_NO_THROW((void)runtime().allocate_bytes(1024, stream()));
}

TEST_P(resource_on, counts_the_bytes_that_are_out) {
  auto a = runtime().allocate_bytes(1000, stream());
  auto b = runtime().allocate_bytes(24, stream());
  EXPECT_EQ(runtime().bytes_outstanding(), 1024u);
  EXPECT_EQ(runtime().statistics().blocks, 2u);
  const auto copy = a;
  a = {};
  EXPECT_EQ(runtime().bytes_outstanding(), 1024u) << "a reference is left";
  b = {};
  EXPECT_EQ(runtime().bytes_outstanding(), 1000u);
  EXPECT_EQ(runtime().statistics().peak_bytes, 1024u);
  runtime().deallocate(copy);
  EXPECT_EQ(runtime().bytes_outstanding(), 0u);
  EXPECT_EQ(runtime().statistics().blocks, 0u);
}

TEST_P(resource_on, memory_is_ready_anywhere_through_a_recorder) {
  if (!tracked()) GTEST_SKIP() << "its blocks may not be recorded";
  gate closed;
  closed.hold(stream());
  const auto a = runtime().allocate<std::uint32_t>(1000, stream());
  const auto elsewhere = runtime().create_stream();
  (void)launch_fill(a, 77, elsewhere);
  const auto ready = uses_of(a).last_write;
  EXPECT_EQ(ready.stream, elsewhere.id());
  closed.open();
  EXPECT_EQ(download(a, stream()), std::vector<std::uint32_t>(1000, 77));
}

TEST_P(resource_on, an_allocation_counts_as_a_use_where_memory_is_stream_ordered) {
  const auto a = runtime().allocate_bytes(64, stream());
  if (GetParam().ordered) {
    EXPECT_EQ(uses_of(a).last_write, detail::timeline::of(stream())->newest());
  } else {
    EXPECT_EQ(uses_of(a).last_write, timeline_point{});
  }
}

TEST_P(resource_on, a_free_behind_a_use_elsewhere_does_not_delay_the_allocating_stream) {
  if (!tracked()) GTEST_SKIP() << "its blocks may not be recorded";
  SLUICE_SKIP_UNDER_COMPUTE_SANITIZER("for its sake no completed point counts as settled");
  const auto lane = runtime().create_stream();
  const auto elsewhere = runtime().create_stream();
  gate closed;
  auto a = runtime().allocate<std::uint32_t>(1000, lane);
  auto result = runtime().allocate<std::uint32_t>(1000, lane);
  (void)launch_fill(a, 21, lane);
  closed.hold(elsewhere);
  auto recorder = launch_recorder::strict(elsewhere);
  recorder.read(a).write(result);
  recorder.preflight();
  elsewhere.ref().device().copy(result.data(), a.data(), a.bytes(),
                                copy_direction::device_to_device, elsewhere.ref().native());
  const auto last_use = recorder.commit();
  a = {};  // freed after a use that does not end before the gate opens
  if (GetParam().ordered && !GetParam().pooled) {
    auto* reclaim = detail::timeline::of(detail::runtime_core::of(runtime())->reclaim_stream());
    EXPECT_FALSE(reclaim->wait_for(*detail::timeline::of(elsewhere.ref()), last_use.ticket))
        << "the free's wait has not been queued";
  }
  // New memory and new work on the lane complete while the gate is closed.
  const auto b = runtime().allocate<std::uint32_t>(1000, lane);
  const auto written = launch_fill(b, 4, lane);
  await([&] {
    runtime().reap_pending();
    return detail::runtime_core::of(runtime())->settled(written);
  });
  EXPECT_FALSE(detail::runtime_core::of(runtime())->settled(uses_of(result).last_write));
  closed.open();
  EXPECT_EQ(download(result, elsewhere), std::vector<std::uint32_t>(1000, 21))
      << "the freed memory was given out again before its last use";
  EXPECT_EQ(download(b, lane), std::vector<std::uint32_t>(1000, 4));
}

TEST_P(resource_on, freed_memory_comes_back_in_stream_order) {
  if (!GetParam().ordered && !GetParam().pooled) {
    GTEST_SKIP() << "its memory is not stream-ordered";
  }
  gate closed;
  closed.hold(stream());
  auto a = runtime().allocate<std::uint32_t>(1 << 16, stream());
  (void)launch_fill(a, 1, stream());
  const auto* address = a.data();
  a = {};
  auto b = runtime().allocate<std::uint32_t>(1 << 16, stream());
  // Nothing has run yet. In the order of this stream the address is free.
  if (on_host() || GetParam().pooled) {
    EXPECT_EQ(b.data(), address);
  }
  (void)launch_fill(b, 2, stream());
  // On another stream the address is not free.
  const auto elsewhere = runtime().create_stream();
  address = b.data();
  b = {};
  const auto c = runtime().allocate<std::uint32_t>(1 << 16, elsewhere);
  EXPECT_NE(c.data(), address);
  closed.open();
  (void)launch_fill(c, 3, elsewhere);
  EXPECT_EQ(download(c, elsewhere), std::vector<std::uint32_t>(c.size(), 3));
  stream().synchronize();
}

TEST_P(resource_on, explicit_deallocation_makes_references_stale) {
  const auto a = runtime().allocate_bytes(64, stream());
  const auto also = a;
  const auto id = a.id();
  runtime().deallocate(a);
  EXPECT_TRUE(a.stale());
  EXPECT_TRUE(also.stale());
  EXPECT_EQ(a.id(), id) << "the identity is still known";
  EXPECT_EQ(a.bytes(), 64u);
  EXPECT_TRUE(throws(errc::stale_ref, "already been freed", [&] { runtime().deallocate(a); }));
  EXPECT_TRUE(throws(errc::stale_ref, "already been freed", [&] { runtime().deallocate(also); }));
  if (tracked()) {
    EXPECT_TRUE(throws(errc::stale_ref, "freed",
                       [&] { (void)runtime().prepare_use(a, stream(), access_kind::read); }));
    EXPECT_TRUE(throws(errc::stale_ref, "freed",
                       [&] { (void)runtime().record_use(a, stream(), access_kind::read); }));
  }
  // The record is not reused while references exist.
  const auto b = runtime().allocate_bytes(64, stream());
  EXPECT_NE(b, a);
  EXPECT_TRUE(a.stale());
  EXPECT_FALSE(b.stale());
}

TEST_P(resource_on, deallocation_refuses_what_is_not_its_own) {
  EXPECT_TRUE(throws(errc::invalid_argument, "empty", [&] { runtime().deallocate({}); }));
  device_runtime other(open_device(GetParam().device));
  const auto other_stream = other.create_stream();
  const auto foreign = other.allocate_bytes(16, other_stream);
  EXPECT_TRUE(
      throws(errc::invalid_argument, "another runtime", [&] { runtime().deallocate(foreign); }));
  EXPECT_FALSE(foreign.stale());
}

TEST_P(resource_on, memory_outlives_the_stream_it_was_allocated_on) {
  auto going = runtime().create_stream();
  auto a = runtime().allocate<std::uint32_t>(1000, going);
  SLUICE_SKIP_UNDER_COMPUTE_SANITIZER("it waits for a stream's work where the stream is destroyed");
  gate closed;
  if (tracked()) {
    closed.hold(going);
    (void)launch_fill(a, 8, going);
  }
  going = {};
  closed.open();
  if (tracked()) {
    EXPECT_EQ(download(a, stream()), std::vector<std::uint32_t>(1000, 8));
  }
  a = {};
  EXPECT_EQ(runtime().bytes_outstanding(), 0u);
}

// The stream is destroyed while another thread drops the last reference to memory allocated on it.
TEST_P(resource_on, a_free_may_meet_the_end_of_its_stream) {
  for (int round = 0; round < 200; ++round) {
    auto going = runtime().create_stream();
    auto a = runtime().allocate_bytes(4096, going);
    std::atomic<bool> go{false};
    std::thread dropping([&] {
      await([&] { return go.load(); });
      a = {};
    });
    go.store(true);
    going = {};
    dropping.join();
  }
  EXPECT_EQ(runtime().bytes_outstanding(), 0u);
}

// Blocks of random sizes live for a while on random streams; each keeps its contents.
TEST_P(resource_on, keeps_contents_while_memory_is_used_again) {
  if (!tracked()) GTEST_SKIP() << "its blocks may not be recorded";
  auto generator = make_generator();
  std::vector<sluice::stream> streams;
  for (int i = 0; i < 3; ++i) streams.push_back(runtime().create_stream());
  struct living {
    gpu_ref<std::uint32_t> ref;
    std::uint32_t value;
  };
  std::vector<living> blocks;
  const auto verify = [&](std::size_t i) {
    const auto& stream = streams[generator() % streams.size()];
    const auto got = download(blocks[i].ref, stream);
    EXPECT_EQ(got, std::vector<std::uint32_t>(got.size(), blocks[i].value));
  };
  for (int round = 0; round < 600; ++round) {
    const auto& stream = streams[generator() % streams.size()];
    if (blocks.size() < 12 || generator() % 2 == 0) {
      const std::size_t count = std::size_t{64} << (generator() % 6);
      const auto value = static_cast<std::uint32_t>(generator());
      auto ref = runtime().allocate<std::uint32_t>(count, stream);
      (void)launch_fill(ref, value, streams[generator() % streams.size()]);
      blocks.push_back({std::move(ref), value});
    } else {
      const auto i = generator() % blocks.size();
      if (generator() % 4 == 0) verify(i);
      std::swap(blocks[i], blocks.back());
      blocks.pop_back();
    }
  }
  for (std::size_t i = 0; i < blocks.size(); ++i) verify(i);
  blocks.clear();
  EXPECT_EQ(runtime().bytes_outstanding(), 0u);
}

TEST_P(resource_on, threads_allocate_and_free_at_once) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      const auto stream = runtime().create_stream();
      std::vector<block_ref> kept;
      for (int round = 0; round < 300; ++round) {
        kept.push_back(runtime().allocate_bytes(static_cast<std::size_t>(1 + round * 7), stream));
        if (kept.size() > 5) kept.erase(kept.begin());
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(runtime().bytes_outstanding(), 0u);
  EXPECT_EQ(runtime().statistics().blocks, 0u);
}

TEST_P(resource_on, a_scripted_failure_to_allocate_leaves_nothing_behind) {
  if (!on_host()) GTEST_SKIP() << "only host devices fail as scripted";
  const auto script = std::make_shared<fault_script>();
  device_runtime scripted(open_host_device({.faults = script}), {.resource = GetParam().make()});
  const auto stream = scripted.create_stream();
  // Returns all kept memory, including memory that the reclaim thread is freeing.
  const auto keep_nothing = [&] {
    stream.synchronize();
    detail::runtime_core::of(scripted)->finish_reclaiming();
    (void)scripted.trim_memory();
  };
  for (const std::uint64_t nth : {1, 3}) {
    keep_nothing();
    script->fail_nth(fault_target::allocation, nth, 2);
    for (std::uint64_t i = 1; i < nth; ++i) (void)scripted.allocate_bytes(1000 << i, stream);
    EXPECT_TRUE(throws(errc::out_of_memory, "scripted", [&] {
      try {
        (void)scripted.allocate_bytes(64, stream, "weights");
      } catch (const error& e) {
        EXPECT_NE(std::string(e.what()).find(" for 'weights'"), std::string::npos);
        throw;
      }
    }));
    EXPECT_EQ(scripted.statistics().blocks, 0u);
    EXPECT_EQ(scripted.bytes_outstanding(), 0u);
    EXPECT_NO_THROW((void)scripted.allocate_bytes(64, stream));
  }
  // The device fails once, and the retry succeeds.
  keep_nothing();
  script->fail_nth(fault_target::allocation, 1);
  EXPECT_NO_THROW((void)scripted.allocate_bytes(64, stream));
  script->fail_nth(fault_target::allocation, 1);
  script->fail_nth(fault_target::allocation, 0);
  EXPECT_NO_THROW((void)scripted.allocate_bytes(64, stream)) << "the script was taken back";
}

}  // namespace
}  // namespace sluice::test
