// SPDX-License-Identifier: Apache-2.0
// Captures and the calls of other threads that synchronize the whole GPU.
#include "runtime/cuda/check.hpp"
#include "tests/operations/program/programs.hpp"
#include "tests/support/forwarding_device.hpp"
#include "tests/support/gate.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

/// What `cudaDeviceSynchronize` returned in another thread while a stream was captured.
std::vector<cudaError_t>& seen_during_captures() {
  static std::vector<cudaError_t> seen;
  return seen;
}

[[nodiscard]] bool is_captured(cudaStream_t stream) {
  auto status = cudaStreamCaptureStatusNone;
  cuda::check(cudaStreamIsCapturing(stream, &status));
  return status == cudaStreamCaptureStatusActive;
}

/// y = x. Another thread synchronizes the GPU while this is being captured.
struct disturbed_copy {
  operand x{};
  operand y{};
  static constexpr auto members() {
    return std::make_tuple(input("x", &disturbed_copy::x), output("y", &disturbed_copy::y));
  }
};
const operation_descriptor& descriptor_of(operation_type<disturbed_copy>) {
  using launch = launch_of<disturbed_copy>;
  static const typed_operation_descriptor<disturbed_copy, std::size_t> descriptor(
      {.name = "disturbed_copy",
       .infer = [](const disturbed_copy& op, inference& inference) -> std::size_t {
         const auto& x = inference.require(op.x);
         inference.result(op.y, x.type, x.shape);
         return x.bytes();
       },
       .cuda = {.library = "test"},
       .enqueue =
           [](lane_libraries& libraries, const std::size_t& bytes, const launch& memory) {
             const auto stream = reinterpret_cast<cudaStream_t>(libraries.stream().native());
             if (is_captured(stream)) {
               std::thread([] {
                 (void)cudaSetDevice(0);
                 seen_during_captures().push_back(cudaDeviceSynchronize());
                 (void)cudaGetLastError();
               }).join();
             }
             cuda::check(cudaMemcpyAsync(memory.get<float>(&disturbed_copy::y),
                                         memory.get<const float>(&disturbed_copy::x), bytes,
                                         cudaMemcpyDeviceToDevice, stream));
           },
       .can_be_captured = true});
  return descriptor;
}

/// A device that captures in its primary context.
class device_without_capture_context final : public forwarding_device {
 public:
  explicit device_without_capture_context(const std::shared_ptr<device>& real)
      : forwarding_device(real->id(), real) {}
  bool enter_capture() noexcept override { return false; }
};

class capture_context : public programs {
 protected:
  void SetUp() override {
    programs::SetUp();
    if (IsSkipped()) return;
    if (runtime().device().id().kind != device_kind::cuda) {
      GTEST_SKIP() << "the device has no graphs";
    }
    const bool separate = runtime().device().enter_capture();
    if (separate) runtime().device().leave_capture();
    if (is_expected() && !separate) GTEST_SKIP() << "the driver has no green contexts";
    ASSERT_EQ(separate, is_expected());
    seen_during_captures().clear();
  }
  [[nodiscard]] virtual bool is_expected() const { return true; }

  /// What is known of a program that another thread disturbs, after a few runs. The results are
  /// checked.
  prepared disturbed(capture_policy policy) {
    program_builder p;
    const auto x = p.input("x");
    const auto copied = p.add("copied", disturbed_copy{.x = x});
    const auto product = p.add("product", gemm{.a = copied, .b = x});
    const auto sum = p.add("sum", add(product, copied));
    const auto program = std::move(p).build({sum}, {.capture = policy});
    const auto input = numbers({8, 8});
    const auto expected = bits(alone(add(alone(gemm{.a = input, .b = input}), input)));
    prepared known;
    await([&] {
      EXPECT_EQ(bits(results_of({program, {input}})[0]), expected);
      known = prepare_of({.what = program, .inputs = {tensor_spec::of(input)}});
      return known.captured || !known.not_captured.empty();
    });
    for (int i = 0; i < 20; ++i) EXPECT_EQ(bits(results_of({program, {input}})[0]), expected);
    return known;
  }
};

TEST_P(capture_context, lets_other_threads_synchronize_the_gpu) {
  for (const auto policy : {capture_policy::at_prepare, capture_policy::automatic}) {
    const auto attempts = test_executor().status().plans.capture_attempts;
    const auto known = disturbed(policy);
    EXPECT_TRUE(known.captured || known.not_captured == "the graph is not faster")
        << known.not_captured;
    // Those when an executable is made are not counted.
    const auto expected = policy == capture_policy::automatic ? 1U : 0U;
    EXPECT_EQ(test_executor().status().plans.capture_attempts, attempts + expected);
  }
  ASSERT_FALSE(seen_during_captures().empty());
  for (const auto status : seen_during_captures()) EXPECT_EQ(status, cudaSuccess);
}

class primary_capture_context : public capture_context {
 protected:
  std::shared_ptr<device> opened_device() override {
    return std::make_shared<device_without_capture_context>(open_device(GetParam()));
  }
  [[nodiscard]] bool is_expected() const override { return false; }
};

// The control: the disturbance is seen where there is one.
TEST_P(primary_capture_context, is_disturbed_by_other_threads) {
  EXPECT_FALSE(disturbed(capture_policy::at_prepare).captured);
  ASSERT_FALSE(seen_during_captures().empty());
  for (const auto status : seen_during_captures()) EXPECT_NE(status, cudaSuccess);
}

TEST_P(primary_capture_context, is_not_used_unless_asked_for) {
  const auto reason = disturbed(capture_policy::automatic).not_captured;
  EXPECT_NE(reason.find("older than 12.4"), std::string::npos) << reason;
  EXPECT_TRUE(seen_during_captures().empty());
}

INSTANTIATE_TEST_SUITE_P(devices, capture_context, every_device(), parameter_name);
INSTANTIATE_TEST_SUITE_P(devices, primary_capture_context, every_device(), parameter_name);

}  // namespace
}  // namespace sluice::test
