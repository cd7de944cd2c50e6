// A million launches later everything is where it began.
#include "runtime/host/announce.hpp"
#include "runtime/runtime_core.hpp"
#include "tests/runtime/use_state.hpp"
#include "tests/support/compute_sanitizer.hpp"
#include "tests/support/devices.hpp"
#include "tests/support/seed.hpp"

#include <sluice/runtime/device_runtime.hpp>
#include <sluice/runtime/memory_adaptors.hpp>
#include <sluice/runtime/memory_budget.hpp>

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <malloc.h>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace sluice::test {
namespace {

/// As many as promised where nothing slows a launch down a hundred times.
int launches() {
  return host::thread_sanitizer_on || under_compute_sanitizer() ? 10'000 : 1'000'000;
}

/// Bytes that the process has from the heap; of use only where no sanitizer has its own.
std::ptrdiff_t heap_in_use() {
  return static_cast<std::ptrdiff_t>(mallinfo2().uordblks + mallinfo2().hblkhd);
}

class growth_on : public ::testing::TestWithParam<std::string> {
 protected:
  static constexpr std::size_t stream_count = 8;

  void SetUp() override {
    if (!has_device(GetParam())) {
      GTEST_SKIP() << "this machine has no device '" << GetParam() << "'";
    }
    held_ = std::make_shared<memory_statistics>();
    taken_ = std::make_shared<memory_statistics>();
    runtime_ = std::make_unique<device_runtime>(
        open_device(GetParam()),
        runtime_options{.resource = make_statistics_resource(
                            make_budget_resource(make_pool_resource(make_statistics_resource(
                                                     make_async_resource(), taken_)),
                                                 std::make_shared<memory_budget>()),
                            held_)});
    for (auto& s : streams_) s = runtime_->create_stream();
  }

  [[nodiscard]] device_runtime& runtime() const { return *runtime_; }
  [[nodiscard]] const stream& on(std::size_t i) const { return streams_[i % stream_count]; }
  /// What users hold, and what the pool took for them.
  [[nodiscard]] memory_counters held() const { return held_->counters(); }
  [[nodiscard]] memory_counters taken() const { return taken_->counters(); }

  void use(const gpu_ref<std::uint32_t>& in, const gpu_ref<std::uint32_t>& out, stream_ref stream) {
    auto recorder = launch_recorder::strict(stream);
    if (in) recorder.read(in);
    if (out) recorder.write(out);
    recorder.preflight();
    (void)recorder.commit();
  }
  /// All work done, and known to be.
  void rest() {
    for (const auto& s : streams_) s.synchronize();
    runtime().reap_pending();
  }

 private:
  std::shared_ptr<memory_statistics> held_;
  std::shared_ptr<memory_statistics> taken_;
  std::unique_ptr<device_runtime> runtime_;
  std::array<stream, stream_count> streams_;
};
INSTANTIATE_TEST_SUITE_P(devices, growth_on, every_device(), parameter_name);

TEST_P(growth_on, a_block_that_is_read_often_keeps_a_point_per_stream) {
  const auto a = runtime().allocate<std::uint32_t>(1000, on(0), "read often");
  const auto before = runtime().statistics().points;
  for (int i = 0; i < launches(); ++i) {
    use(a, {}, on(static_cast<std::size_t>(i)));
    if (i % 4096 == 0) {
      ASSERT_LE(uses_of(a).all.size(), stream_count);
      ASSERT_LE(runtime().statistics().points, before + stream_count);
    }
  }
  EXPECT_LE(uses_of(a).all.size(), stream_count);
  rest();
  EXPECT_EQ(runtime().statistics().launches, static_cast<std::uint64_t>(launches()) + 1);
}

TEST_P(growth_on, events_are_as_many_as_launches_in_flight_need) {
  constexpr std::size_t in_flight = 500;
  const auto a = runtime().allocate<std::uint32_t>(1000, on(0));
  for (std::size_t i = 0; i < static_cast<std::size_t>(launches()); ++i) {
    use(a, {}, on(i));
    if (i % in_flight == in_flight - 1) rest();
  }
  rest();
  // A ring doubles when it is full, and every stream begins with one; nobody but the test's streams
  // and the runtime's own takes tickets.
  constexpr std::size_t first_rings = 32 * (stream_count + 1);
  EXPECT_LE(runtime().statistics().events, first_rings + 4 * in_flight);
}

TEST_P(growth_on, a_million_launches_later_all_is_where_it_began) {
  auto random = make_generator();
  constexpr std::size_t inputs = 4;
  std::vector<gpu_ref<std::uint32_t>> in;
  for (std::size_t i = 0; i < inputs; ++i) {
    in.push_back(runtime().allocate<std::uint32_t>(256, on(i), "input"));
  }
  const auto round = [&](int count) {
    for (int i = 0; i < count; ++i) {
      const auto& stream = on(random() % stream_count);
      // A result that is dropped at once: its memory comes back, with the points of this launch.
      const auto out = runtime().allocate<std::uint32_t>(64 + random() % 1000, stream, "result");
      use(in[random() % inputs], out, stream);
      if (i % 512 == 511) rest();
    }
    rest();
  };
  round(20'000);  // until the pool has what it needs
  const auto before = runtime().statistics();
  const auto held_before = held();
  const auto taken_before = taken();
  round(launches());
  const auto after = runtime().statistics();
  EXPECT_EQ(after.blocks, before.blocks);
  EXPECT_EQ(after.bytes_outstanding, before.bytes_outstanding);
  EXPECT_EQ(after.references, before.references);
  EXPECT_EQ(after.leases, 0u);
  EXPECT_EQ(after.streams, before.streams);
  EXPECT_EQ(after.releases_pending, 0u);
  EXPECT_LE(after.points, inputs * (stream_count + 1));
  EXPECT_EQ(held().bytes.current, held_before.bytes.current);
  EXPECT_EQ(held().allocations.current, held_before.allocations.current);
  // What the pool has, and events, follow the largest number in flight, which chance may raise a
  // little; a leak would be a million.
  EXPECT_LE(after.events, 2 * before.events);
  EXPECT_LE(taken().bytes.current, 2 * taken_before.bytes.current);
}

TEST_P(growth_on, streams_that_come_and_go_leave_nothing_but_their_number) {
  const int many = host::thread_sanitizer_on || under_compute_sanitizer() ? 500 : 10'000;
  const auto shared = runtime().allocate<std::uint32_t>(256, on(0), "shared");
  use({}, shared, on(0));
  const auto churn = [&](int streams) {
    for (int i = 0; i < streams; ++i) {
      const auto passing = runtime().create_stream();
      const auto out = runtime().allocate<std::uint32_t>(64, passing, "result");
      use(shared, out, passing);
      use(out, {}, on(static_cast<std::size_t>(i)));
      use({}, shared, on(static_cast<std::size_t>(i)));  // waits for the passing one
      if (i % 64 == 63) rest();
    }
    rest();
    // The last tickets of the passing streams, too; a few streams are looked at each time.
    runtime().core()->for_each_timeline([](auto& t) { t.wait_until(t.newest().ticket); });
    for (int i = 0; i < 100; ++i) runtime().reap_pending();
  };
  churn(many / 10);
  const auto before = runtime().statistics();
  const auto heap_before = heap_in_use();
  churn(many);
  const auto after = runtime().statistics();
  EXPECT_EQ(after.streams, before.streams);
  EXPECT_EQ(after.blocks, before.blocks);
  EXPECT_LE(after.points, before.points + stream_count);
  EXPECT_EQ(after.events, before.events) << "the events of a stream are gone with it";
  // The record of a stream stays, since ids are never used again; and each of the test's streams
  // has a word for each other stream.
  const auto grown = (heap_in_use() - heap_before) / many;
  RecordProperty("bytes_for_each_stream", std::to_string(grown));
  EXPECT_LE(grown, 1024) << "bytes for each stream that has gone";
}

}  // namespace
}  // namespace sluice::test
