// SPDX-License-Identifier: Apache-2.0
#include "tests/support/devices.hpp"
#include "tests/support/expect_error.hpp"

#include <sluice/runtime/column.hpp>
#include <sluice/runtime/dlpack.hpp>
#include <sluice/runtime/gpu_ref.hpp>

#include <gtest/gtest.h>

#include <complex>
#include <cstdint>
#include <limits>
#include <numeric>
#include <thread>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

static_assert(element<float> && element<std::complex<double>> && element<std::uint8_t>);
static_assert(element<bool> && element<bf16> && !element<long double> && !element<const float>);
static_assert(!std::is_convertible_v<gpu_ref<float>, gpu_ref<double>>);

class gpu_ref_on : public device_test {};
INSTANTIATE_TEST_SUITE_P(devices, gpu_ref_on, every_device(), parameter_name);

TEST(empty_reference, refers_to_nothing) {
  const gpu_ref<float> none;
  EXPECT_FALSE(none);
  EXPECT_TRUE(none.empty());
  EXPECT_EQ(none.size(), 0u);
  EXPECT_EQ(none.data(), nullptr);
  EXPECT_TRUE(none.stale());
  EXPECT_TRUE(
      throws(errc::invalid_argument, "the reference is empty", [&] { (void)none.device(); }));
  EXPECT_EQ(none.block().id(), block_id{});
  EXPECT_EQ(none, gpu_ref<float>());
  const auto copy = none;
  EXPECT_FALSE(copy);
}

TEST_P(gpu_ref_on, says_that_it_is_stale_on_another_runtime_too) {
  gpu_ref<float> orphan;
  {
    device_runtime gone(open_device(GetParam()));
    const auto stream = gone.create_stream();
    orphan = gone.allocate<float>(4, stream, "orphan");
  }
  const auto& block = orphan.block();
  const auto refused = [](const auto& call) {
    return throws(errc::stale_ref, "'orphan'", call);
  };
  EXPECT_TRUE(refused([&] { runtime().deallocate(block); }));
  EXPECT_TRUE(refused([&] { (void)runtime().prepare_use(block, stream(), access_kind::read); }));
  EXPECT_TRUE(refused([&] { (void)runtime().record_use(block, stream(), access_kind::read); }));
  EXPECT_TRUE(refused([&] { (void)export_dlpack(runtime(), orphan); }));
  auto recorder = launch_recorder::strict(stream());
  recorder.read(orphan);
  EXPECT_TRUE(refused([&] { recorder.preflight(); }));
}

TEST_P(gpu_ref_on, counts_its_copies) {
  auto a = runtime().allocate<float>(10, stream(), "weights");
  auto b = a;
  auto c = std::move(a);
  EXPECT_FALSE(a);  // NOLINT(bugprone-use-after-move): moving leaves an empty reference
  EXPECT_EQ(b, c);
  EXPECT_EQ(runtime().statistics().blocks, 1u);
  b = {};
  EXPECT_EQ(runtime().statistics().blocks, 1u);
  auto& same = c;
  c = same;
  c = std::move(same);
  EXPECT_EQ(runtime().statistics().blocks, 1u);
  EXPECT_EQ(c.block().tag().name(), "weights");
  EXPECT_EQ(c.device(), runtime().device().id());
  c = runtime().allocate<float>(3, stream());
  EXPECT_EQ(runtime().statistics().blocks, 1u) << "assignment drops what was held";
  c = {};
  EXPECT_EQ(runtime().statistics().blocks, 0u);
}

TEST_P(gpu_ref_on, is_copied_and_dropped_on_many_threads) {
  auto a = runtime().allocate<float>(10, stream());
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([held = a] {
      for (int n = 0; n < 2000; ++n) {
        auto copy = held;
        auto moved = std::move(copy);
        EXPECT_EQ(moved, held);
      }
    });
  }
  a = {};
  for (auto& thread : threads) thread.join();
  threads.clear();
  EXPECT_EQ(runtime().statistics().blocks, 0u);
}

TEST_P(gpu_ref_on, views_share_their_block) {
  std::vector<std::uint32_t> values(100);
  std::iota(values.begin(), values.end(), 0u);
  auto a = upload(runtime(), stream(), values);
  const auto part = a.subspan(10, 20);
  EXPECT_EQ(part.size(), 20u);
  EXPECT_EQ(part.bytes(), 80u);
  EXPECT_EQ(part.offset(), 40u);
  EXPECT_EQ(part.data(), a.data() + 10);
  EXPECT_EQ(part.block(), a.block());
  EXPECT_EQ(part.subspan(5, 2).data(), a.data() + 15);
  EXPECT_NE(part, a);
  EXPECT_EQ(a.subspan(100, 0).size(), 0u);
  EXPECT_EQ(download(part, stream()),
            std::vector<std::uint32_t>(values.begin() + 10, values.begin() + 30));
  a = {};
  EXPECT_EQ(runtime().statistics().blocks, 1u) << "a view keeps the block";
}

TEST_P(gpu_ref_on, refuses_views_outside_of_it) {
  constexpr auto most = std::numeric_limits<std::size_t>::max();
  const auto a = runtime().allocate<float>(10, stream());
  const std::pair<std::size_t, std::size_t> outside[] = {{0, 11},   {11, 0},   {5, 6},
                                                         {most, 1}, {1, most}, {most, most}};
  for (const auto& [first, count] : outside) {
    EXPECT_TRUE(throws(errc::invalid_argument, "subspan",
                       [&, f = first, c = count] { (void)a.subspan(f, c); }));
  }
  EXPECT_TRUE(throws(errc::invalid_argument, "aligned to its size, 4 bytes",
                     [&] { (void)gpu_ref<float>(a.block(), 2, 1); }));
  EXPECT_TRUE(
      throws(errc::invalid_argument, "its block", [&] { (void)gpu_ref<float>(a.block(), 0, 11); }));
  EXPECT_TRUE(
      throws(errc::invalid_argument, "its block", [&] { (void)gpu_ref<float>(a.block(), 44, 0); }));
  EXPECT_TRUE(throws(errc::invalid_argument, "its block",
                     [&] { (void)gpu_ref<float>(block_ref(), 0, 1); }));
}

TEST_P(gpu_ref_on, reinterprets_whole_elements) {
  const auto a = runtime().allocate<float>(10, stream());
  const auto pairs = a.reinterpret<std::complex<float>>();
  EXPECT_EQ(pairs.size(), 5u);
  EXPECT_EQ(static_cast<void*>(pairs.data()), static_cast<void*>(a.data()));
  EXPECT_EQ(pairs.type(), element_type::c64);
  EXPECT_TRUE(throws(errc::invalid_argument, "not a multiple",
                     [&] { (void)a.subspan(0, 3).reinterpret<double>(); }));
  EXPECT_TRUE(throws(errc::invalid_argument, "aligned",
                     [&] { (void)a.subspan(1, 2).reinterpret<double>(); }));
  EXPECT_TRUE(throws(errc::invalid_argument, "aligned", [&] {
    (void)a.subspan(1, 2).reinterpret<std::complex<float>>();
  })) << "aligned to its parts only";
  EXPECT_TRUE(a.subspan(1, 0).reinterpret<double>().empty());
}

TEST_P(gpu_ref_on, a_column_is_owned_or_external) {
  const auto a = runtime().allocate<double>(10, stream());
  const column owned = a.subspan(2, 3);
  EXPECT_FALSE(owned.is_external());
  EXPECT_EQ(owned.address(), a.data() + 2);
  EXPECT_EQ(owned.bytes(), 24u);
  EXPECT_EQ(owned.type(), element_type::f64);
  EXPECT_EQ(owned.device(), runtime().device().id());
  int outside[2] = {};
  const auto external =
      column::external(runtime().device().id(), outside, sizeof outside, element_type::i32);
  EXPECT_TRUE(external.is_external());
  EXPECT_EQ(external.address(), outside);
  EXPECT_EQ(external.bytes(), sizeof outside);
  EXPECT_TRUE(column().is_external());
}

TEST(element_types, know_their_size_and_name) {
  EXPECT_EQ(size_of(element_type_v<bool>), sizeof(bool));
  EXPECT_EQ(size_of(element_type_v<std::uint8_t>), 1u);
  EXPECT_EQ(size_of(element_type_v<std::int8_t>), 1u);
  EXPECT_EQ(size_of(element_type_v<std::uint16_t>), sizeof(std::uint16_t));
  EXPECT_EQ(size_of(element_type_v<std::int16_t>), sizeof(std::int16_t));
  EXPECT_EQ(size_of(element_type_v<e4m3>), 1U);
  EXPECT_EQ(size_of(element_type_v<e5m2>), 1U);
  EXPECT_EQ(size_of(element_type_v<f16>), sizeof(f16));
  EXPECT_EQ(size_of(element_type_v<bf16>), sizeof(bf16));
  EXPECT_EQ(size_of(element_type_v<std::int32_t>), sizeof(std::int32_t));
  EXPECT_EQ(size_of(element_type_v<std::uint32_t>), sizeof(std::uint32_t));
  EXPECT_EQ(size_of(element_type_v<std::int64_t>), sizeof(std::int64_t));
  EXPECT_EQ(size_of(element_type_v<std::uint64_t>), sizeof(std::uint64_t));
  EXPECT_EQ(size_of(element_type_v<float>), sizeof(float));
  EXPECT_EQ(size_of(element_type_v<double>), sizeof(double));
  EXPECT_EQ(size_of(element_type_v<std::complex<float>>), sizeof(std::complex<float>));
  EXPECT_EQ(size_of(element_type_v<std::complex<double>>), sizeof(std::complex<double>));
  EXPECT_EQ(to_string(element_type::c128), "c128");
  EXPECT_EQ(to_string(element_type::u8), "u8");
  EXPECT_EQ(to_string(element_type::e4m3), "e4m3");
  EXPECT_EQ(to_string(element_type::e5m2), "e5m2");
}

}  // namespace
}  // namespace sluice::test
