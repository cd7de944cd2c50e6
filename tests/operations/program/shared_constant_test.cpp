// SPDX-License-Identifier: Apache-2.0
// The identity of large constants in host memory, the claims of threads that make their copies, and
// the uploads.
#include "operations/program/shared_constant.hpp"

#include "operations/seam.hpp"
#include "runtime/base/sanitizers.hpp"
#include "tests/support/forked_child.hpp"
#include "tests/support/pinning_gpu.hpp"
#include "tests/support/random_values.hpp"
#include "tests/support/seed.hpp"

#include <sluice/operations/host_tensor.hpp>
#include <sluice/operations/lane_libraries.hpp>
#include <sluice/runtime/device_runtime.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

using operations::shared_constant;

host_tensor fixed_bytes() {
  host_tensor elements(element_type::u8, {100});
  detail::fixed_elements::fix(elements);
  return elements;
}

TEST(shared_constant_identity, is_that_of_memory_in_use) {
  const auto elements = fixed_bytes();
  auto first = shared_constant::of(elements);
  EXPECT_EQ(shared_constant::of(elements.reshape({10, 10})), first);
  EXPECT_NE(shared_constant::of(fixed_bytes()), first);
  const std::weak_ptr<const shared_constant> watched = first;
  first.reset();
  EXPECT_TRUE(watched.expired());
  const auto again = shared_constant::of(elements);
  EXPECT_EQ(shared_constant::of(elements), again);
}

TEST(shared_constant_identity, is_new_for_elements_that_may_be_written) {
  const host_tensor elements(element_type::u8, {100});
  const auto first = shared_constant::of(elements);
  EXPECT_NE(shared_constant::of(elements), first);
  detail::fixed_elements::fix(elements);
  const auto fixed = shared_constant::of(elements);
  EXPECT_NE(fixed, first);
  EXPECT_EQ(shared_constant::of(elements), fixed);
}

[[noreturn]] void look_for_a_constant_of_the_parent() {
  const auto elements = fixed_bytes();
  const auto of_parent = shared_constant::of(elements);
  report_end_of_child([&] {
    const auto own = shared_constant::of(elements);
    return own != of_parent && shared_constant::of(elements) == own ? 0 : 1;
  });
  std::exit(shared_constant::of(elements) == of_parent ? 0 : 1);
}

TEST(shared_constant_identity, is_another_in_a_child_of_fork) {
#if defined(SLUICE_ADDRESS_SANITIZER)
  GTEST_SKIP() << "LeakSanitizer reports false leaks of the child";
#endif
  EXPECT_EXIT(look_for_a_constant_of_the_parent(), ::testing::ExitedWithCode(0),
              "^the child exited with 0\n$");
}

TEST(shared_constant_identity, owns_the_memory) {
  auto elements = fixed_bytes();
  const std::weak_ptr<const void> memory = std::as_const(elements).data();
  auto constant = shared_constant::of(elements);
  elements = host_tensor();
  EXPECT_FALSE(memory.expired());
  constant.reset();
  EXPECT_TRUE(memory.expired());
}

TEST(shared_constant_claims, belong_to_one_thread_at_a_time) {
  constexpr int threads = 4;
  const auto constant = shared_constant::of(host_tensor(element_type::u8, {100}));
  std::atomic<int> holders{0};
  std::atomic<int> claims{0};
  std::barrier all(threads);
  std::vector<std::thread> running;
  for (int i = 0; i < threads; ++i) {
    running.emplace_back([&] {
      all.arrive_and_wait();
      for (int turns = 0; turns < 200;) {
        std::shared_ptr<const operations::device_constant> copy;
        if (constant->claim(1, copy) != shared_constant::claim_result::claimed) {
          constant->await_unclaimed(1);
          continue;
        }
        EXPECT_EQ(++holders, 1);
        ++claims;
        --holders;
        constant->abandon(1);
        ++turns;
      }
    });
  }
  for (auto& thread : running) thread.join();
  EXPECT_EQ(claims, threads * 200);
  // Another runtime has claims of its own.
  std::shared_ptr<const operations::device_constant> copy;
  EXPECT_EQ(constant->claim(1, copy), shared_constant::claim_result::claimed);
  EXPECT_EQ(constant->claim(1, copy), shared_constant::claim_result::awaited);
  EXPECT_EQ(constant->claim(2, copy), shared_constant::claim_result::claimed);
  const auto made =
      std::make_shared<const operations::device_constant>(host_tensor(element_type::u8, {100}));
  constant->publish(1, made);
  EXPECT_EQ(constant->claim(1, copy), shared_constant::claim_result::exists);
  EXPECT_EQ(copy, made);
  constant->abandon(2);
}

// The transfers of one launch take all pinned memory of a pretended GPU.
TEST(shared_constant_upload, moves_all_through_little_pinned_memory) {
  constexpr auto limit = std::size_t{2} << 20U;
  constexpr int small_constants = 100;
  constexpr std::size_t small_size = 8192;  // elements, half a piece of pinned memory
  constexpr std::size_t large_size = 100'000;
  auto random = make_generator();
  for (const int large_constants : {0, 2}) {
    const auto gpu = std::make_shared<pinning_gpu>();
    device_runtime runtime(gpu, {.pinned_limit = limit});
    const auto stream = runtime.create_stream();
    lane_libraries libraries(runtime, stream.ref());
    std::vector<std::shared_ptr<const shared_constant>> constants;
    for (int i = 0; i < small_constants + large_constants; ++i) {
      const auto size = i < small_constants ? small_size : large_size;
      constants.push_back(shared_constant::of(host_tensor(random_values<float>(random, size))));
    }
    const auto copies = operations::upload_shared_constants(libraries, constants);
    ASSERT_EQ(copies.size(), constants.size());
    for (std::size_t i = 0; i < copies.size(); ++i) {
      const auto& elements = constants[i]->elements();
      ASSERT_EQ(copies[i]->bytes(), elements.bytes());
      EXPECT_EQ(std::memcmp(copies[i]->address(), elements.data().get(), elements.bytes()), 0);
    }
    EXPECT_LE(gpu->peak(), limit);
  }
}

}  // namespace
}  // namespace sluice::test
