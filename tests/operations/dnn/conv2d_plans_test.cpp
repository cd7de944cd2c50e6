// SPDX-License-Identifier: Apache-2.0
#include "tests/operations/dnn/convolution_fixture.hpp"

#include <sluice/operations/operation_descriptor.hpp>
#include <sluice/runtime/host_task.hpp>

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

class conv2d_plans : public convolution_fixture {};

TEST_P(conv2d_plans, tells_its_library_and_version) {
  const auto& descriptor = descriptor_of(operation_type<conv2d>{});
  const auto kind = runtime().device().id().kind;
  EXPECT_EQ(descriptor.library(kind), on_host() ? "oneDNN" : "cuDNN");
  const auto version = descriptor.version(kind);
  EXPECT_TRUE(!version.empty() && version.front() >= '0' && version.front() <= '9') << version;
}

/// cuDNN's algorithms are not tried out on operands of more than 256 MiB.
TEST_P(conv2d_plans, large_operands) {
  if (on_host()) GTEST_SKIP() << "nothing is tried out on the host";
  const auto w = numbers({64, 64, 3, 3});
  const auto image = numbers({1, 64, 224, 224});
  const tensor batch(runtime().allocate_bytes(16 * image.bytes(), stream(), "batch"),
                     element_type::f32, {16, 64, 224, 224});
  launch_recorder recorder = launch_recorder::strict(stream());
  recorder.read(image.as<float>()).write(batch.as<float>());
  recorder.preflight();
  for (std::size_t i = 0; i < 16; ++i) {
    stream().device().copy(static_cast<std::byte*>(batch.address()) + i * image.bytes(),
                           image.address(), image.bytes(), copy_direction::device_to_device,
                           stream().native());
  }
  recorder.commit();
  const auto expected = row_major(run(test_executor(), conv2d{.x = image, .w = w}));
  const auto y = run(test_executor(), conv2d{.x = batch, .w = w});
  EXPECT_LE(
      relative_error(row_major(run(test_executor(), conv2d{.x = batch.slice(0, 15, 16), .w = w})),
                     expected),
      error_bound<float>(64 * 9));
  const auto all = download(y.as<float>(), stream());
  for (const std::size_t i : {0U, 7U, 15U}) {
    const auto first = all.begin() + static_cast<std::ptrdiff_t>(i * expected.size());
    EXPECT_LE(
        relative_error(std::vector(first, first + static_cast<std::ptrdiff_t>(expected.size())),
                       expected),
        error_bound<float>(64 * 9));
  }
}

/// A plan serves requests with and without bias and activation.
TEST_P(conv2d_plans, make_a_plan_once) {
  const auto x = numbers({1, 3, 8, 8});
  const auto w = numbers({4, 3, 3, 3});
  (void)run(test_executor(), conv2d{.x = x, .w = w});
  auto& planned = test_executor();
  const auto waits = [&](conv2d operation) {
    auto answer = submit(planned, std::move(operation), {.reply = reply_on::enqueued});
    const bool parked = planned.waiting() != 0;
    (void)wait(answer);
    return parked;
  };
  EXPECT_FALSE(waits({.x = x, .w = w}));
  EXPECT_FALSE(waits({.x = x, .w = w, .activation = activation::relu}));
  EXPECT_FALSE(waits({.x = x, .w = w, .bias = numbers({4})}));
  EXPECT_TRUE(waits({.x = x, .w = w, .geometry = {.stride = {.h = 2, .w = 1}}}));
}

/// Launches share the workspace of the lane, which is replaced while launches that use the old one
/// are queued.
TEST_P(conv2d_plans, a_larger_plan_does_not_disturb_what_is_queued) {
  std::vector<std::pair<tensor, std::vector<double>>> results;
  for (const std::int64_t size : {6, 14, 6, 25, 14, 40}) {
    const conv2d_description d{
        .x = {1, 24, size, size}, .w = {20, 24, 3, 3}, .geometry = {.padding = {.h = 1, .w = 1}}};
    const auto p = random_conv2d(d, generator());
    const auto put = [&](const std::vector<float>& values, const extents& shape) {
      return tensor(upload(runtime(), stream(), values)).reshape(shape);
    };
    results.emplace_back(
        run(test_executor(), conv2d{.x = put(p.x, d.x), .w = put(p.w, d.w), .geometry = d.geometry},
            {.reply = reply_on::enqueued}),
        conv2d_reference(p));
  }
  for (const auto& [y, expected] : results) {
    EXPECT_LE(relative_error(row_major(y), expected), error_bound<float>(24 * 9));
  }
}

TEST_P(conv2d_plans, the_same_bits_again) {
  const conv2d operation{
      .x = numbers({2, 32, 20, 20}), .w = numbers({32, 32, 3, 3}), .bias = numbers({32})};
  EXPECT_EQ(row_major(run(test_executor(), operation)), row_major(run(test_executor(), operation)));
}

/// One channel that oneDNN would store in blocks of 8 or 16.
TEST_P(conv2d_plans, one_channel_needs_little_scratch_memory) {
  const auto x = numbers({1, 1, 2000, 2000});
  const auto w = numbers({1, 1, 3, 3});
  stream().synchronize();
  const auto before = runtime().bytes_outstanding();
  auto y = run(test_executor(), conv2d{.x = x, .w = w});
  EXPECT_LE(runtime().bytes_outstanding(), before + y.bytes() + (std::size_t{128} << 20U));
}

/// The threads of the process.
std::ptrdiff_t count_threads() {
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return std::distance(begin(tasks), end(tasks));
}

// OpenMP's threads would spin after the call. A new lane is a thread for which there are none yet.
// The product is too small for the helpers of the device.
TEST_P(conv2d_plans, starts_no_threads_for_a_product_that_is_not_large) {
  if (!on_host()) GTEST_SKIP() << "oneDNN is the library of the host";
  // Starts the planner; there is nothing to multiply.
  (void)run(test_executor(), conv2d{.x = numbers({1, 0, 8, 8}), .w = numbers({2, 0, 3, 3})});
  const auto before = count_threads();
  expect_right({.x = {1, 64, 28, 28}, .w = {64, 64, 3, 3}});
  EXPECT_EQ(count_threads(), before);
}

/// The host's stream computes, not the thread that launches.
TEST(conv2d_on_the_host, waits_for_its_turn_on_the_stream) {
  const auto& descriptor = descriptor_of(operation_type<conv2d>{});
  if (!has_convolutions(device_kind::host)) GTEST_SKIP() << "this build has no oneDNN";
  device_runtime runtime(open_device("host"));
  const stream lane = runtime.create_stream();
  lane_libraries libraries(runtime, lane);
  const std::vector<float> ones(4, 1);
  const tensor x = upload(runtime, lane, ones);
  const auto y = upload(runtime, lane, std::vector<float>(4, 0));
  conv2d operation{.x = x.reshape({1, 1, 2, 2}),
                   .w = x.slice(0, 0, 1).reshape({1, 1, 1, 1}),
                   .y = tensor(y).reshape({1, 1, 2, 2})};
  inference_of<5> inferred(sluice::detail::operands_of(operation));
  call_storage call{};
  descriptor.infer(&operation, inferred, call);
  const auto plan = descriptor.make_plan(libraries, call);
  const auto workspace = runtime.allocate_bytes(plan->workspace_bytes() + 1, lane, "workspace");

  std::atomic<bool> open{false};
  float seen = -1;
  submit_host_task(lane, [&open, &seen, first = y.data()] {
    open.wait(false);
    seen = *first;
  });
  const std::array<void*, 5> addresses{operation.x.value().address(), operation.w.value().address(),
                                       nullptr, y.data(), nullptr};
  descriptor.enqueue(
      libraries, call,
      {.addresses = addresses, .plan = plan.get(), .workspace = workspace.address()});
  open = true;
  open.notify_all();
  lane.synchronize();
  EXPECT_EQ(seen, 0);
  EXPECT_EQ(download(y, lane), ones);
}

INSTANTIATE_TEST_SUITE_P(devices, conv2d_plans, every_device(), parameter_name);

}  // namespace
}  // namespace sluice::test
