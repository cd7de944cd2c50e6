// SPDX-License-Identifier: Apache-2.0
// Exports that are imported again.
#include "tests/runtime/interop/dlpack_test.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <complex>
#include <cstdint>
#include <thread>
#include <type_traits>
#include <vector>

namespace sluice::test {
namespace {

template <element T>
void goes_round(device_runtime& runtime, stream_ref stream) {
  SCOPED_TRACE(to_string(element_type_v<T>));
  auto random = make_generator();
  std::vector<T> values(24);
  for (auto& value : values) {
    if constexpr (std::is_integral_v<T>) {
      value = static_cast<T>(random());
    } else {
      value = T(static_cast<float>(static_cast<int>(random() % 1000)));
    }
  }
  const auto whole = upload(runtime, stream, values);
  const auto part = whole.subspan(4, 20);
  auto* out = export_dlpack(runtime, tensor(part).reshape({2, 10}));
  EXPECT_EQ(out->version.major, 1u);
  EXPECT_EQ(out->flags, 0u);
  EXPECT_EQ(out->tensor.strides[0], 10);
  EXPECT_EQ(runtime.statistics().exports, 1u);
  const auto back = import_dlpack(runtime, out, {.ready = true});
  EXPECT_EQ(extents(back.shape()), (extents{2, 10}));
  EXPECT_TRUE(back.is_contiguous());
  EXPECT_EQ(download(back.template as<T>(), stream),
            std::vector<T>(values.begin() + 4, values.end()));
}

TEST_P(dlpack_on, every_element_type_goes_round) {
  const auto check = [this]<element T>() {
    goes_round<T>(runtime(), stream());
    expect_nothing_is_out();
  };
  for_each_real_type(check);
  check.operator()<bf16>();
  check.operator()<e4m3>();
  check.operator()<e5m2>();
  check.operator()<std::complex<float>>();
  check.operator()<std::complex<double>>();
}

TEST_P(dlpack_on, many_threads_may_pass_memory_round) {
  constexpr int rounds = 40;
  // The streams must exist until the last deleter has been called.
  std::vector<sluice::stream> consumers(4);
  for (auto& consumer : consumers) consumer = other().create_stream();
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (std::uint32_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      const auto own_stream = runtime().create_stream();
      const auto consumer = consumers[t].ref();
      for (std::uint32_t i = 0; i < rounds; ++i) {
        auto a = runtime().allocate<std::uint32_t>(50, own_stream);
        launch_fill(a, i * 4 + t, own_stream);
        auto* out = export_dlpack(runtime(), a, {.stream = named(consumer)});
        // To the other runtime, and its copy back.
        const auto there = import_dlpack(other(), out, {.stream = named(consumer)});
        const auto word = i * 4 + t + 1;
        {
          const auto theirs = there.as<std::uint32_t>();
          auto recorder = launch_recorder::strict(consumer);
          recorder.read_write(theirs);
          recorder.preflight();
          enqueue_fill(theirs, word, consumer);
          (void)recorder.commit();
          if (download(theirs, consumer) != std::vector(50, word)) wrong.fetch_add(1);
        }
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong.load(), 0);
  await([&] { return other().statistics().imports == 0; });
  expect_nothing_is_out();
  EXPECT_EQ(runtime().statistics().blocks, 0u);
}

}  // namespace
}  // namespace sluice::test
