// SPDX-License-Identifier: Apache-2.0
// Copies between runtimes with faults: every wait ends, and memory that is still being written or
// read is not reused.
#include "runtime/sync/lease_holder.hpp"
#include "tests/support/copy_side.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/gate.hpp"
#include "tests/support/pinning_gpu.hpp"
#include "tests/support/seed.hpp"
#include "tests/support/small_launches.hpp"

#include <sluice/runtime/host_task.hpp>
#include <sluice/runtime/memory_adaptors.hpp>
#include <sluice/runtime/memory_guard.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

using call = pretended_gpu::call;

constexpr std::size_t count = 2000;

error planted() {
  return {errc::library_failure, "for this test"};
}

std::shared_ptr<pretended_gpu> pretend(int ordinal = 0) {
  static const auto real = open_host_device();
  return std::make_shared<pretended_gpu>(ordinal, real);
}

/// Queues a launch on the other stream of a host device that writes `ref` and fails.
void write_and_fail(const side& s, const words& ref) {
  auto recorder = begin_write(ref, s.other);
  submit_host_task(s.other, [] { throw planted(); });
  (void)recorder.commit();
}

void retire(side& s) {
  s.stream = {};
}

/// Makes a copy. Returns the empty point if a device has been lost.
timeline_point copy_unless_lost(const words& target, stream_ref target_stream, const words& source,
                                stream_ref source_stream) {
  try {
    return enqueue_copy(target, target_stream, source, source_stream);
  } catch (const error& e) {
    EXPECT_EQ(e.code(), errc::device_lost) << e.what();
    return {};
  }
}

// From a host device to a GPU, which waits for the host

class copies_to_a_gpu : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (GetParam() != "pretended:0" && !has_device(GetParam())) {
      GTEST_SKIP() << "this machine has no device '" << GetParam() << "'";
    }
  }
};
INSTANTIATE_TEST_SUITE_P(targets, copies_to_a_gpu, ::testing::Values("pretended:0", "cuda"),
                         [](const auto& p) { return p.param.substr(0, p.param.find(':')); });

TEST_P(copies_to_a_gpu, end_wherever_a_fault_is_scripted) {
  const side target_side(GetParam());
  for (const auto fault : {fault_target::launch, fault_target::copy, fault_target::loss}) {
    for (std::uint64_t nth = 1; nth <= 3; ++nth) {
      const auto script = std::make_shared<fault_script>();
      const side source_side(open_host_device({.faults = script}));
      const auto source = source_side.holding(values(count, 1));
      const auto target = target_side.holding(values(count, 2));
      script->fail_nth(fault, nth);
      const auto copied = copy_unless_lost(target, target_side.stream, source, source_side.stream);
      target_side.stream.synchronize();
      // A single operation reads the source, and nothing else counts for the fault script.
      const bool struck = fault != fault_target::launch && nth == 1;
      EXPECT_EQ(bool(copied), !struck || fault != fault_target::loss);
      if (copied) {
        await([&] { return target_side.done(copied); });
        EXPECT_EQ(bool(target_side.failure_of(copied)), struck);
        if (!struck) {
          EXPECT_EQ(download(target, target_side.other), values(count, 1));
        }
      }
      (void)launch_fill(target, 3, target_side.stream);
      EXPECT_EQ(download(target, target_side.other), values(count, 3));
    }
  }
}

TEST_P(copies_to_a_gpu, end_whenever_the_source_is_lost) {
  auto random = make_generator();
  const side target_side(GetParam());
  for (int round = 0; round < 100; ++round) {
    const side source_side("host");
    const auto source = source_side.holding(values(count, 1));
    const auto target = target_side.holding(values(count, 2));
    std::atomic<bool> go{false};
    std::thread loser([&, turns = random() % 3000] {
      while (!go.load()) {
      }
      for (std::atomic<std::uint64_t> turn{0}; turn < turns; ++turn) {
      }
      source_side.runtime->device().lose(planted());
    });
    go = true;
    const auto copied = copy_unless_lost(target, target_side.stream, source, source_side.stream);
    target_side.stream.synchronize();
    loser.join();
    if (copied) {
      await([&] { return target_side.done(copied); });
      if (const auto why = target_side.failure_of(copied)) {
        EXPECT_EQ(why->code(), errc::upstream_failed);
      } else {
        EXPECT_EQ(download(target, target_side.other), values(count, 1));
      }
    }
  }
}

TEST_P(copies_to_a_gpu, that_fail_leave_launches_around_them_alone) {
  const side source_side("host");
  const side target_side(GetParam());
  const auto source = source_side.allocate(count);
  const auto target = target_side.holding(values(count, 2));
  const auto bystander = target_side.holding(values(count, 2));
  write_and_fail(source_side, source);
  auto around = begin_write(bystander, target_side.stream);
  timeline_point copied;
  std::thread([&] {
    copied = enqueue_copy(target, target_side.stream, source, source_side.stream);
  }).join();
  const std::uint32_t value = 3;
  target_side.stream.ref().device().fill(bystander.data(), &value, sizeof value, count,
                                         target_side.stream.ref().native());
  const auto last = around.commit();
  await([&] { return target_side.done(last); });
  EXPECT_TRUE(target_side.failure_of(copied));
  EXPECT_FALSE(target_side.failure_of(last));
}

// Only tickets that depend on another runtime are settled one by one.
TEST(copies_to_a_pretended_gpu, leave_other_launches_to_be_settled_together) {
  const auto real = open_host_device();
  const auto gpu = std::make_shared<pretended_gpu>(0, real);
  std::atomic<int> queries{0};
  gpu->watch = [&](call device_call) {
    if (device_call == call::query) queries.fetch_add(1);
  };
  const side source_side("host");
  const side target_side(gpu);
  const auto source = source_side.holding(values(count, 1));
  const auto target = target_side.allocate(count);
  (void)enqueue_copy(target, target_side.stream, source, source_side.stream);
  target_side.stream.synchronize();
  auto random = make_generator();
  for (const auto* stream : {&target_side.other, &target_side.stream}) {
    auto& line = *detail::timeline::of(stream->ref());
    const auto launch = [&](std::uint64_t times) {
      while (times-- != 0) {
        line.reserve();
        (void)line.submit();
      }
    };
    const auto open = std::make_shared<std::atomic<bool>>(false);
    real->notify(stream->ref().native(), [open] { await([&] { return open->load(); }); });
    launch(100 + random() % 100);
    timeline_point copied;
    {
      gate writing;
      writing.hold(source_side.other);
      write_and_fail(source_side, source);
      if (stream == &target_side.stream)
        copied = enqueue_copy(target, *stream, source, source_side.stream);
    }
    launch(100 + random() % 100);
    const auto before = line.watermark();
    const auto newest = line.newest().ticket;
    queries.store(0);
    open->store(true);
    real->synchronize(stream->ref().native());
    await([&] { return line.advance() == newest; });
    EXPECT_GE(newest - before, 200u);
    // The threads of the runtime query, too.
    EXPECT_LE(static_cast<std::uint64_t>(queries.load()), (newest - before) / 2);
    for (auto ticket = before + 1; ticket <= newest; ++ticket) {
      EXPECT_EQ(line.failure_of(ticket).has_value(), copied && ticket == copied.ticket);
    }
  }
}

// Neither queued copies nor settled ones keep their runtimes alive.
TEST_P(copies_to_a_gpu, keep_no_runtime) {
  auto source_side = std::make_unique<side>("host");
  const auto source_core = std::weak_ptr(detail::runtime_core::of(*source_side->runtime));
  auto source = source_side->holding(values(count, 1));
  std::weak_ptr<detail::runtime_core> target_core;
  {
    const side target_side(GetParam());
    target_core = detail::runtime_core::of(*target_side.runtime);
    const auto target = target_side.allocate(count);
    (void)enqueue_copy(target, target_side.stream, source, source_side->stream);
  }
  await([&] { return target_core.expired(); });
  const side target_side(GetParam());
  const auto target = target_side.allocate(count);
  gate closed;
  closed.hold(target_side.stream);
  const auto copied = enqueue_copy(target, target_side.stream, source, source_side->stream);
  source = {};
  source_side.reset();
  EXPECT_FALSE(source_core.expired()) << "the copy may still be asked whether its source failed";
  closed.open();
  await([&] { return target_side.done(copied); });
  const side next("host");
  const auto held = next.holding(values(count, 1));
  await([&] {
    // A later copy releases the dependency of an earlier one.
    (void)enqueue_copy(target, target_side.stream, held, next.stream);
    return source_core.expired();
  });
}

// The host device is lost after the read has been queued. The task that writes, or is about to
// write, owns its target, and no pinned memory stays in use.
TEST(copies_from_a_lost_host, own_what_they_write) {
  const auto gpu = std::make_shared<pinning_gpu>();
  const side target_side(gpu);
  const auto target = target_side.allocate(count);
  {
    const auto script = std::make_shared<fault_script>();
    const side source_side(open_host_device({.faults = script}));
    const auto source = source_side.holding(values(count, 1));
    gate closed;
    closed.hold(source_side.stream);
    script->fail_nth(fault_target::loss, 1);
    EXPECT_TRUE(throws(errc::device_lost, "scripted", [&] {
      (void)enqueue_copy(target, target_side.stream, source, source_side.stream);
    }));
    EXPECT_GT(gpu->peak(), 0U);
    (void)target_side.runtime->trim_memory();
    await([&] { return gpu->pinned() == 0; });
  }
}

TEST(copies_with_a_failing_event, end) {
  const auto gpu = pretend();
  std::atomic<bool> armed{false};
  std::atomic<bool> reached{false};
  gpu->watch = [&](call c) {
    if (c != call::record || !armed.exchange(false)) return;
    reached = true;
    throw planted();
  };
  const side source_side("host");
  const side target_side(gpu);
  const auto source = source_side.allocate(count);
  const auto target = target_side.holding(values(count, 2));
  gate closed;
  closed.hold(source_side.other);
  write_and_fail(source_side, source);
  armed = true;
  std::thread copying([&] {
    EXPECT_TRUE(throws(errc::library_failure, "for this test", [&] {
      (void)enqueue_copy(target, target_side.stream, source, source_side.stream);
    }));
  });
  await([&] { return reached.load(); });
  closed.open();
  copying.join();
  EXPECT_EQ(target_side.runtime->statistics().leases, 0u);
  (void)launch_fill(target, 3, target_side.stream);
  EXPECT_EQ(download(target, target_side.other), values(count, 3));
}

TEST(copies_to_a_lost_gpu, keep_nothing_of_it) {
  auto gpu = pretend();
  const auto watched = std::weak_ptr(gpu);
  const side source_side("host");
  const auto source = source_side.holding(values(count, 1));
  {
    const side target_side(std::move(gpu));
    const auto target = target_side.allocate(count);
    gate closed;
    closed.hold(source_side.stream);
    (void)enqueue_copy(target, target_side.stream, source, source_side.stream);
    target_side.runtime->device().lose(planted());
  }
  await([&] { return watched.expired(); });
}

// The callback of a guard may wait for a lock, whose holder may wait for a lease.
TEST(copies_to_stale_memory, are_reported_after_the_leases_have_been_returned) {
  const side source_side(pretend());
  std::atomic<bool> frees{false};
  std::vector<std::size_t> leases;  // at each report
  const auto on_report = [&](const guard_report& found) {
    EXPECT_EQ(found.finding, guard_finding::stale_use);
    EXPECT_FALSE(detail::lease_holder::of_this_thread().in_turnstile());
    leases.push_back(source_side.runtime->statistics().leases);
  };
  const side target_side(pretend(1), {.resource = make_guard_resource(make_async_resource(),
                                                                      {.on_report = on_report})});
  words target;
  detail::runtime_core::of(*target_side.runtime)->at_each_step([&](detail::launch_step step) {
    if (step != detail::launch_step::leasing || !frees.exchange(false)) return;
    EXPECT_EQ(source_side.runtime->statistics().leases, 1u);
    target_side.runtime->deallocate(target.block());
  });
  const auto source = source_side.holding(values(count, 1));
  target = target_side.allocate(count);
  frees = true;
  EXPECT_TRUE(throws(errc::stale_ref, "copied", [&] {
    (void)enqueue_copy(target, target_side.stream, source, source_side.stream);
  }));
  EXPECT_EQ(leases, std::vector<std::size_t>{0});
}

TEST(copies_on_a_retired_stream, keep_the_memory_on_the_way) {
  const auto gpu = std::make_shared<pinning_gpu>();
  const side source_side("host");
  side target_side(gpu);
  bool retiring = true;
  detail::runtime_core::of(*target_side.runtime)->at_each_step([&](detail::launch_step step) {
    if (step == detail::launch_step::enqueued && std::exchange(retiring, false))
      retire(target_side);
  });
  const auto source = source_side.holding(values(count, 3));
  const auto target = target_side.allocate(count);
  gate closed;
  closed.hold(target_side.stream);
  EXPECT_TRUE(throws(errc::stream_misuse, "stream has been destroyed", [&] {
    (void)enqueue_copy(target, target_side.stream, source, source_side.stream);
  }));
  source_side.stream.synchronize();
  // The source has been read, but the retired stream has not reached the copy.
  const auto pinned = gpu->pinned();
  EXPECT_GT(pinned, 0U);
  (void)target_side.runtime->trim_memory();
  EXPECT_EQ(gpu->pinned(), pinned);
  closed.open();
  EXPECT_EQ(download(target, target_side.other), values(count, 3));
  await([&] {
    (void)target_side.runtime->trim_memory();
    return gpu->pinned() == 0;
  });
}

// To a host device, whose stream's thread waits

class copies_to_a_host : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(sources, copies_to_a_host, ::testing::Values("host", "cuda"),
                         [](const auto& p) { return p.param; });

TEST_P(copies_to_a_host, do_not_outlive_the_target) {
  if (!has_device(GetParam())) GTEST_SKIP() << "this machine has no device '" << GetParam() << "'";
  const side source_side(GetParam());
  const auto source = source_side.holding(values(count, 1));
  const auto kept = source_side.allocate(count);
  gate closed;
  closed.hold(source_side.stream);
  {
    const side target_side(open_host_device(), {.drain_timeout = std::chrono::milliseconds(50)});
    const auto target = target_side.allocate(count);
    (void)enqueue_copy(target, target_side.stream, source, source_side.stream);
  }
  closed.open();
  (void)enqueue_copy(kept, source_side.other, source, source_side.other);
  EXPECT_EQ(download(kept, source_side.other), values(count, 1));
}

// Between GPUs

/// Copies from a host device through two other runtimes. The host has not written the data yet.
class copies_between_gpus : public ::testing::Test {
 protected:
  void SetUp() override {
    for (int i = 0; i < 2; ++i) {
      const auto gpu = pretend(i);
      gpu->watch = [this, i](call c) {
        called(i, c);
      };
      sides_[i] = std::make_unique<side>(gpu);
      detail::runtime_core::of(*sides_[i]->runtime)
          ->at_each_step([this, i](detail::launch_step step) {
            if (i != 1 || step != detail::launch_step::enqueued || !retires_) return;
            retire(*sides_[1]);
            retired_ = true;
          });
      blocks_[i] = sides_[i]->holding(values(count, 2));
    }
    written_ = first_.holding(values(count, 1));
    closed_.hold(first_.other);
    (void)launch_fill(written_, 3, first_.other);
    (void)enqueue_copy(blocks_[0], sides_[0]->stream, written_, first_.stream);
  }
  void TearDown() override {
    closed_.open();
    for (auto& block : blocks_) block = {};
    for (auto& s : sides_) s.reset();
  }
  timeline_point copy() {
    return enqueue_copy(blocks_[1], sides_[1]->stream, blocks_[0], sides_[0]->stream);
  }

  std::atomic<bool> retires_{false};  // retires the target's stream once the copy has been queued
  std::atomic<bool> retired_{false};
  std::atomic<std::size_t> leased_{1};  // the leases held when the target prepared copies

 private:
  void called(int gpu, call c) {
    if (c == call::prepare_copies_from) {
      std::size_t leases = 0;
      for (const auto& s : sides_) leases += s->runtime->statistics().leases;
      leased_ = leases;
    }
    if (gpu != 1 || std::this_thread::get_id() != copying_) return;
    if (c == call::query && retired_) closed_.open();  // a thread waits for the copy
  }

  const std::thread::id copying_ = std::this_thread::get_id();
  side first_{"host"};
  words written_;

 protected:
  std::unique_ptr<side> sides_[2];
  words blocks_[2];
  gate closed_;
};

TEST_F(copies_between_gpus, end_before_the_source_is_given_back_without_a_ticket) {
  retires_ = true;
  const auto* const stream = detail::timeline::of(sides_[1]->stream.ref());
  EXPECT_TRUE(throws(errc::stream_misuse, "stream has been destroyed", [&] { (void)copy(); }));
  EXPECT_EQ(stream->watermark(), stream->newest().ticket);
  EXPECT_EQ(sides_[0]->runtime->statistics().recorders_abandoned, 0u);
  EXPECT_EQ(sides_[0]->runtime->statistics().leases, 0u);
}

TEST_F(copies_between_gpus, to_a_lost_gpu_keep_nothing_of_the_source) {
  auto& readers = detail::timeline::of(sides_[0]->stream.ref())->outcome_readers();
  const std::weak_ptr core = detail::runtime_core::of(*sides_[0]->runtime);
  (void)copy();  // depends on a ticket of the source's runtime
  readers.begin_grace();
  EXPECT_FALSE(readers.grace_over()) << "the copy does not read the outcome";
  sides_[1]->runtime->device().lose(planted());
  sides_[1]->runtime->reap_pending();
  ASSERT_TRUE(readers.grace_over());
  closed_.open();
  blocks_[0] = {};
  sides_[0].reset();
  await([&] { return core.expired(); });
}

TEST_F(copies_between_gpus, prepare_before_they_lease) {
  const auto copied = copy();
  EXPECT_EQ(leased_, 0u);
  closed_.open();
  await([&] { return sides_[1]->done(copied); });
  EXPECT_EQ(download(blocks_[1], sides_[1]->other), values(count, 3));
}

}  // namespace
}  // namespace sluice::test
