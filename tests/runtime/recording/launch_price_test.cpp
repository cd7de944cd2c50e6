// SPDX-License-Identifier: Apache-2.0
// The cost of a launch of three blocks for the launching thread: instructions, heap allocations and
// calls of the device. No clock is involved.
#include "runtime/base/sanitizers.hpp"
#include "runtime/timelines/timeline.hpp"
#include "tests/support/failing_allocations.hpp"
#include "tests/support/forwarding_device.hpp"
#include "tests/support/instruction_count.hpp"

#include <sluice/runtime/device_runtime.hpp>
#include <sluice/runtime/launch_recorder.hpp>

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace sluice::test {
namespace {

/// A device that counts calls for events and makes them free. Like on a GPU, single launches do not
/// fail.
class counting_device final : public forwarding_device {
 public:
  counting_device() : forwarding_device({device_kind::host, 0}, open_device("host")) {}

  bool idle = true;  // whether all work has completed
  std::atomic<std::uint64_t> records{0};
  std::atomic<std::uint64_t> waits{0};
  std::atomic<std::uint64_t> queries{0};

  void record(native_event*, std::uint64_t, native_stream*) override { ++records; }
  void wait(native_stream*, native_event*, std::uint64_t) override { ++waits; }
  event_state query(native_event*, std::uint64_t) noexcept override {
    ++queries;
    return idle ? event_state::complete : event_state::pending;
  }
  void acquire(native_event*, std::uint64_t) noexcept override {}
  [[nodiscard]] bool needs_acquire() const noexcept override { return false; }
  [[nodiscard]] bool reports_task_failures() const noexcept override { return false; }
};

constexpr std::uint64_t batch = 128;  // the launches in flight on a lane

class launch_price : public ::testing::Test {
 protected:
  ~launch_price() override { gpu_->idle = true; }  // otherwise the end of the runtime waits for it
  void SetUp() override {
#if defined(SLUICE_THREAD_SANITIZER)
    GTEST_SKIP() << "the events of this device order nothing";
#endif
    runtime_.emplace(gpu_);
    stream_ = runtime_->create_stream();
    for (auto& block : blocks_) block = runtime_->allocate<float>(16, stream_);
  }

  void launch(stream_ref stream) {
    launch(stream, blocks_[2]);
  }
  /// A launch with another output.
  void launch(stream_ref stream, const gpu_ref<float>& output) {
    auto recorder = launch_recorder::strict(stream);
    recorder.read(blocks_[0]).read(blocks_[1]).write(output);
    recorder.preflight();
    (void)recorder.commit();
  }
  /// A launch that writes one block.
  static void write(stream_ref stream, const gpu_ref<float>& block) {
    auto recorder = launch_recorder::strict(stream);
    recorder.write(block);
    recorder.preflight();
    (void)recorder.commit();
  }
  /// Lets the runtime know that all work on a stream has completed.
  void complete(stream_ref stream) {
    gpu_->idle = true;
    (void)detail::timeline::of(stream)->advance();
  }
  /// Makes launches on one stream, in batches. A busy stream completes each batch at its end.
  void launches(std::uint64_t count, bool busy) {
    for (std::uint64_t i = 0; i < count; ++i) {
      gpu_->idle = !busy;
      launch(stream_);
      if (i % batch != batch - 1) continue;
      complete(stream_);
    }
  }

  [[nodiscard]] counting_device& gpu() {
    return *gpu_;
  }
  [[nodiscard]] device_runtime& runtime() {
    return *runtime_;
  }
  [[nodiscard]] stream_ref stream() const {
    return stream_;
  }
  [[nodiscard]] const gpu_ref<float>& block(std::size_t i) const {
    return blocks_[i];
  }

 private:
  std::shared_ptr<counting_device> gpu_ = std::make_shared<counting_device>();
  std::optional<device_runtime> runtime_;
  sluice::stream stream_;
  std::array<gpu_ref<float>, 3> blocks_;
};

/// Environment variables with the task for the program under a tool that counts instructions.
const char* const launches_wanted = "SLUICE_TEST_LAUNCHES";
const char* const on_a_busy_stream = "SLUICE_TEST_BUSY";

TEST_F(launch_price, is_one_record_and_few_queries) {
  const auto* const wanted = std::getenv(launches_wanted);
  const auto count = wanted != nullptr ? std::strtoull(wanted, nullptr, 10) : 8 * batch;
  for (const bool busy : {false, true}) {
    if (wanted != nullptr && busy != (std::getenv(on_a_busy_stream) != nullptr)) continue;
    const auto records = gpu().records.load();
    const auto queries = gpu().queries.load();
    launches(count, busy);
    EXPECT_EQ(gpu().records - records, count) << busy;
    EXPECT_LE(gpu().queries - queries, count / 4) << busy;
    EXPECT_EQ(gpu().waits, 0u) << busy;
  }
}

TEST_F(launch_price, is_one_wait_for_each_other_stream_once) {
  std::vector<sluice::stream> others;
  gpu().idle = false;
  for (std::size_t i = 0; i < 3; ++i) {
    others.push_back(runtime().create_stream());
    write(others.back(), block(i));
  }
  const auto waits = gpu().waits.load();  // for the allocations
  launch(stream());
  EXPECT_EQ(gpu().waits, waits + 3);
  for (int i = 0; i < 5; ++i) launch(stream());
  EXPECT_EQ(gpu().waits, waits + 3);
}

TEST_F(launch_price, is_no_heap_memory) {
  for (const bool busy : {false, true}) {
    launches(4 * batch, busy);  // lets everything grow to its final size
    const auto before = allocations_made();
    launches(8 * batch, busy);
    EXPECT_EQ(allocations_made(), before) << busy;
  }
}

TEST_F(launch_price, is_no_heap_memory_after_writes_on_other_streams) {
  std::vector<sluice::stream> others;
  for (std::size_t i = 0; i < 3; ++i) others.push_back(runtime().create_stream());
  for (const bool finished : {true, false}) {
    std::uint64_t allocations = 0;
    std::uint64_t waits = 0;
    constexpr std::uint64_t count = 8 * batch;
    for (std::uint64_t round = 0; round < 2 * count; ++round) {
      gpu().idle = false;
      for (std::size_t i = 0; i < 3; ++i) write(others[i], block(i));
      if (finished) {
        for (const auto& other : others) complete(other);
      }
      const auto allocations_before = allocations_made();
      const auto waits_before = gpu().waits.load();
      launch(stream());
      if (round >= count) {  // everything has grown to its final size
        allocations += allocations_made() - allocations_before;
        waits += gpu().waits - waits_before;
      }
      for (const auto& other : others) complete(other);
      complete(stream());
    }
    EXPECT_EQ(allocations, 0u) << finished;
    EXPECT_EQ(waits, finished ? 0 : 3 * count) << finished;
  }
}

TEST_F(launch_price, is_no_heap_memory_beside_other_threads) {
  std::vector<std::thread> threads;
  std::array<std::uint64_t, 4> allocations{};
  for (auto& of_thread : allocations) {
    threads.emplace_back([this, &of_thread] {
      const auto stream = runtime().create_stream();
      const auto output = runtime().allocate<float>(16, stream);
      for (std::uint64_t i = 0; i < 4 * batch; ++i) launch(stream, output);
      const auto before = allocations_made();
      for (std::uint64_t i = 0; i < 8 * batch; ++i) launch(stream, output);
      of_thread = allocations_made() - before;
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(allocations, (std::array<std::uint64_t, 4>{}));
}

/// Counts the instructions of this program when it only makes `launches` launches.
std::optional<std::uint64_t> count_launches(std::uint64_t launches, bool busy) {
  (void)::setenv(launches_wanted, std::to_string(launches).c_str(), 1);
  (void)(busy ? ::setenv(on_a_busy_stream, "1", 1) : ::unsetenv(on_a_busy_stream));
  const auto counted = count_instructions("launch_price.is_one_record_and_few_queries");
  (void)::unsetenv(launches_wanted);
  (void)::unsetenv(on_a_busy_stream);
  return counted;
}

TEST_F(launch_price, is_a_bounded_number_of_instructions) {
  SLUICE_REQUIRE_INSTRUCTION_COUNT();
  // Ten percent above the 2263 of GCC 12 at -O3, for other compilers and libraries.
  constexpr std::uint64_t most = 2480;
  constexpr std::uint64_t few = 4 * batch;
  constexpr std::uint64_t many = 20 * batch;
  for (const bool busy : {false, true}) {
    const auto before = count_launches(few, busy);
    const auto after = count_launches(many, busy);
    ASSERT_TRUE(before && after);
    const auto of_one = (*after - *before) / (many - few);
    RecordProperty(busy ? "instructions_busy" : "instructions_idle", static_cast<int>(of_one));
    std::printf("%llu instructions on %s stream\n", static_cast<unsigned long long>(of_one),
                busy ? "a busy" : "an idle");
    EXPECT_LE(of_one, most) << busy;
    EXPECT_GE(of_one, most / 4) << "what was counted were no launches";
  }
}

}  // namespace
}  // namespace sluice::test
