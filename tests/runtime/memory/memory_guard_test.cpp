// SPDX-License-Identifier: Apache-2.0
// The guard finds every planted misuse, and nothing else.
#include "tests/runtime/memory/memory_guard_test.hpp"

#include "tests/support/collected_reports.hpp"
#include "tests/support/compute_sanitizer.hpp"
#include "tests/support/seed.hpp"
#include "tests/support/small_launches.hpp"

#include <sluice/runtime/copy.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

INSTANTIATE_TEST_SUITE_P(devices, guard_on, every_device(), parameter_name);

void expect_block(const allocation& found, const block_id& id, std::size_t bytes,
                  std::string_view tag) {
  EXPECT_EQ(found.address, id.address);
  EXPECT_EQ(found.bytes, bytes);
  EXPECT_EQ(found.generation, id.generation);
  EXPECT_EQ(found.tag.name(), tag);
}

TEST_P(guard_on, finds_an_overrun_and_names_its_block) {
  auto generator = make_generator();
  for (int round = 0; round < 20; ++round) {
    const std::size_t bytes = 1 + generator() % 5000;
    const auto first = generator() % zone;
    const auto count = 1 + generator() % (zone - first);
    auto block = allocate(bytes, "too short");
    const auto id = block.id();
    (void)write(block, static_cast<std::ptrdiff_t>(bytes + first), count, stream());
    block = {};
    const auto found = await_report();
    EXPECT_EQ(found.finding, guard_finding::overrun);
    EXPECT_EQ(found.offset, static_cast<std::ptrdiff_t>(bytes + first));
    EXPECT_EQ(found.damaged, count);
    EXPECT_FALSE(found.now_there);
    expect_block(found.block, id, bytes, "too short");
  }
}

TEST_P(guard_on, finds_an_underrun_and_names_its_block) {
  auto generator = make_generator();
  for (int round = 0; round < 20; ++round) {
    const auto before = static_cast<std::ptrdiff_t>(1 + generator() % zone);
    const auto count = 1 + generator() % static_cast<std::size_t>(before);
    auto block = allocate(1000, "too late");
    const auto id = block.id();
    (void)write(block, -before, count, stream());
    block = {};
    const auto found = await_report();
    EXPECT_EQ(found.finding, guard_finding::underrun);
    EXPECT_EQ(found.offset, -before);
    EXPECT_EQ(found.damaged, count);
    expect_block(found.block, id, 1000, "too late");
  }
}

TEST_P(guard_on, finds_both_and_a_single_byte) {
  open({.red_zone = 1024});
  auto block = allocate(77);
  (void)write(block, -1024, 1, stream());
  (void)write(block, 77 + 1023, 1, other());
  block = {};
  close();
  const auto found = take_reports();
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].finding, guard_finding::underrun);
  EXPECT_EQ(found[0].offset, -1024);
  EXPECT_EQ(found[1].finding, guard_finding::overrun);
  EXPECT_EQ(found[1].offset, 77 + 1023);
}

TEST_P(guard_on, finds_a_write_after_the_free) {
  auto generator = make_generator();
  // Also in the red zones, and beyond the number of bytes compared at a time.
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{5000}, std::size_t{5} << 19}) {
    const auto extent = bytes + 2 * zone;
    const auto first = generator() % extent;
    const auto count = 1 + generator() % (extent - first);
    const auto offset = static_cast<std::ptrdiff_t>(first) - static_cast<std::ptrdiff_t>(zone);
    auto block = allocate(bytes, "freed early");
    const auto id = block.id();
    auto* const address = static_cast<std::byte*>(block.address());
    (void)write(block, 0, bytes, stream());
    free_and_await_quarantine(std::move(block));
    scribble(address + offset, count, stream());
    stream().synchronize();
    EXPECT_GE(runtime().trim_memory(), bytes);
    const auto found = await_report();
    EXPECT_EQ(found.finding, guard_finding::write_after_free);
    EXPECT_EQ(found.offset, offset);
    EXPECT_EQ(found.damaged, count);
    expect_block(found.block, id, bytes, "freed early");
  }
}

TEST_P(guard_on, reports_a_double_free) {
  const auto block = allocate(100, "given back");
  runtime().deallocate(block);
  for (int round = 0; round < 2; ++round) {
    EXPECT_TRUE(throws(errc::stale_ref, "given back", [&] { runtime().deallocate(block); }));
    const auto found = await_report();
    EXPECT_EQ(found.finding, guard_finding::double_free);
    expect_block(found.block, block.id(), 100, "given back");
    EXPECT_FALSE(found.now_there);
    EXPECT_NE(to_string(found).find("memory 'given back' (100 bytes at 0x"), std::string::npos);
  }
}

TEST_P(guard_on, reports_a_stale_use_with_both_tags) {
  SLUICE_SKIP_UNDER_COMPUTE_SANITIZER("for its sake no completed point counts as settled");
  open(open_device(GetParam()), make_pool_resource(make_async_resource()),
       {.quarantine_blocks = 0});
  auto first = allocate(1000, "first");
  const auto id = first.id();
  auto recorder = launch_recorder::strict(stream());
  recorder.use(first, access_kind::read, true);
  // Another block gets the memory; the reference stays with the first one.
  runtime().deallocate(first);
  await([&] { return counters().checked == 1; });
  auto second = allocate(1000, "second");
  ASSERT_EQ(second.address(), id.address);
  const auto expect = [&] {
    const auto found = await_report();
    EXPECT_EQ(found.finding, guard_finding::stale_use);
    expect_block(found.block, id, 1000, "first");
    ASSERT_TRUE(found.now_there);
    expect_block(*found.now_there, second.id(), 1000, "second");
    const auto line = to_string(found);
    EXPECT_NE(line.find("'first'"), std::string::npos) << line;
    EXPECT_NE(line.find("'second'"), std::string::npos) << line;
  };
  EXPECT_TRUE(throws(errc::stale_ref, "been freed", [&] { recorder.preflight(); }));
  expect();
  EXPECT_TRUE(throws(errc::stale_ref, "first",
                     [&] { (void)runtime().prepare_use(first, stream(), access_kind::read); }));
  expect();
  EXPECT_TRUE(throws(errc::stale_ref, "first",
                     [&] { (void)runtime().record_use(first, stream(), access_kind::read); }));
  expect();
}

TEST_P(guard_on, names_no_block_that_it_has_forgotten) {
  open({.remembered = 1});
  const auto stale_use_after = [&](int frees) {
    auto block = allocate(64, "long ago");
    const auto generation = block.id().generation;
    auto recorder = launch_recorder::strict(stream());
    recorder.use(block, access_kind::read, true);
    block = {};
    for (int i = 0; i < frees; ++i) (void)allocate(64, "later");
    EXPECT_TRUE(throws(errc::stale_ref, "", [&] { recorder.preflight(); }));
    const auto found = await_report();
    EXPECT_EQ(found.block.generation, generation);
    return std::string(found.block.tag.name());
  };
  EXPECT_EQ(stale_use_after(0), "long ago");
  EXPECT_EQ(stale_use_after(1), "unknown");
}

TEST_P(guard_on, survives_what_its_reports_throw) {
  open({.on_report = [](const guard_report&) {
    throw std::runtime_error("no ears");
  }});
  auto block = allocate(10);
  (void)write(block, 10, 1, stream());
  runtime().deallocate(block);
  EXPECT_TRUE(throws(errc::stale_ref, "", [&] { runtime().deallocate(block); }));
  block = {};
  await([&] { return counters().lost_reports == 2; });
  EXPECT_EQ(counters().reported, 0u) << "a lost finding counts as reported, too";
}

TEST_P(guard_on, reports_its_findings_unless_told_otherwise) {
  const collected_reports reports;
  {
    device_runtime plain(open_device(GetParam()),
                         {.resource = make_guard_resource(make_async_resource())});
    const auto stream = plain.create_stream();
    auto block = plain.allocate_bytes(48, stream, "lonely");
    (void)write(block, 50, 4, stream);
  }
  const auto said = reports.text();
  EXPECT_NE(said.find("memory 'lonely' (48 bytes at 0x"), std::string::npos) << said;
  EXPECT_NE(said.find("past its end: 4 bytes are damaged, the first at offset 50"),
            std::string::npos)
      << said;
}

TEST_P(guard_on, finds_nothing_in_clean_use) {
  for (const bool pooled : {false, true}) {
    open(open_device(GetParam()),
         pooled ? make_pool_resource(make_async_resource()) : make_async_resource(),
         {.quarantine_bytes = 50'000, .quarantine_blocks = 10});
    constexpr int threads = 4;
    constexpr int each = 150;
    std::vector<std::thread> all;
    for (int t = 0; t < threads; ++t) {
      all.emplace_back([&, seed = process_seed() + static_cast<std::uint64_t>(t)] {
        std::mt19937_64 generator(seed);
        const auto mine = runtime().create_stream();
        std::vector<std::pair<gpu_ref<std::uint32_t>, std::uint32_t>> living;
        const auto look = [&](std::size_t index, stream_ref stream) {
          const auto& [ref, value] = living[index];
          EXPECT_EQ(download(ref, stream), std::vector<std::uint32_t>(ref.size(), value));
        };
        for (int i = 0; i < each; ++i) {
          if (living.size() > 6 || (!living.empty() && generator() % 3 == 0)) {
            const auto index = generator() % living.size();
            if (generator() % 4 == 0) look(index, generator() % 2 == 0 ? other() : mine.ref());
            living[index] = living.back();
            living.pop_back();
          }
          const auto value = static_cast<std::uint32_t>(generator());
          const auto& block_stream = generator() % 4 == 0 ? other() : mine.ref();
          living.emplace_back(
              runtime().allocate<std::uint32_t>(1 + generator() % 2000, block_stream), value);
          auto recorder =
              begin_write(living.back().first, generator() % 4 == 0 ? stream() : mine.ref());
          const auto& ref = living.back().first;
          const auto native =
              detail::runtime_core::of(runtime())->find(recorder.launch_stream())->native();
          runtime().device().fill(ref.data(), &value, sizeof value, ref.size(), native);
          (void)recorder.commit();
          if (generator() % 40 == 0) (void)runtime().trim_memory();
        }
        for (std::size_t index = 0; index < living.size(); ++index) look(index, mine);
      });
    }
    for (auto& thread : all) thread.join();
    close();
    EXPECT_EQ(counters().checked, std::uint64_t{threads} * each);
    EXPECT_EQ(counters().unchecked, 0u);
    EXPECT_EQ(counters().reported, 0u);
  }
}

}  // namespace
}  // namespace sluice::test
