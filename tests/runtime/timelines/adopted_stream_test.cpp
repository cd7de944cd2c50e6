// SPDX-License-Identifier: Apache-2.0
// Streams of another library.
#include "tests/support/devices.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/gate.hpp"
#include "tests/support/small_launches.hpp"
#include "tests/support/use_state.hpp"

#include <sluice/runtime/device_runtime.hpp>
#include <sluice/runtime/host_device.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace sluice::test {
namespace {

class adopted_stream_on : public named_device_test {
 protected:
  void SetUp() override {
    named_device_test::SetUp();
    if (IsSkipped()) return;
    runtime_ = std::make_unique<device_runtime>(open_device(GetParam()));
    foreign_ = runtime().device().create_stream();
  }
  void TearDown() override {
    if (foreign_ != nullptr) runtime().device().destroy_stream(foreign_);
  }
  [[nodiscard]] device_runtime& runtime() const { return *runtime_; }
  [[nodiscard]] native_stream* foreign() const { return foreign_; }

 private:
  std::unique_ptr<device_runtime> runtime_;
  native_stream* foreign_ = nullptr;
};
INSTANTIATE_TEST_SUITE_P(devices, adopted_stream_on, every_device(), parameter_name);

TEST_P(adopted_stream_on, is_fenced_like_the_runtimes_own) {
  const auto runtime_stream = runtime().create_stream();
  const auto adopted = runtime().adopt_stream(foreign());
  EXPECT_EQ(adopted.ref().native(), foreign());
  const auto a = runtime().allocate<std::uint32_t>(1000, runtime_stream);
  gate closed;
  closed.hold(adopted);
  const auto late = launch_fill(a, 1, adopted);
  EXPECT_EQ(late.stream, adopted.id());
  const auto waits = runtime().statistics().waits;
  (void)launch_fill(a, 2, runtime_stream);
  EXPECT_EQ(runtime().statistics().waits, waits + 1) << "for the adopted one";
  closed.open();
  adopted.synchronize();
  EXPECT_EQ(download(a, runtime_stream), std::vector<std::uint32_t>(1000, 2));
}

TEST_P(adopted_stream_on, goes_behind_what_was_queued_on_it_before) {
  const auto runtime_stream = runtime().create_stream();
  const auto a = runtime().allocate<std::uint32_t>(1000, runtime_stream);
  runtime_stream.synchronize();
  gate closed;
  {
    const auto before = runtime().adopt_stream(foreign());
    closed.hold(before);
  }
  const std::uint32_t early = 7;
  runtime().device().fill(a.data(), &early, sizeof early, a.size(), foreign());
  const auto adopted = runtime().adopt_stream(foreign());
  (void)launch_fill(a.subspan(0, 500), 8, adopted);
  closed.open();
  auto expected = std::vector<std::uint32_t>(1000, 7);
  std::fill_n(expected.begin(), 500, 8U);
  EXPECT_EQ(download(a, runtime_stream), expected);
}

TEST_P(adopted_stream_on, stays_when_its_owner_goes) {
  const auto before = runtime().statistics().streams;
  const auto a = [&] {
    const auto adopted = runtime().adopt_stream(foreign());
    EXPECT_EQ(runtime().statistics().streams, before + 1);
    auto ref = runtime().allocate<std::uint32_t>(64, adopted);
    (void)launch_fill(ref, 3, adopted);
    return ref;
  }();
  EXPECT_EQ(runtime().statistics().streams, before);
  // The native stream is still usable by its owner.
  runtime().device().synchronize(foreign());
  const auto again = runtime().adopt_stream(foreign());
  EXPECT_EQ(download(a, again), std::vector<std::uint32_t>(64, 3));
}

TEST_P(adopted_stream_on, adopted_twice_is_two_streams_in_one_order) {
  const auto one = runtime().adopt_stream(foreign());
  const auto two = runtime().adopt_stream(foreign());
  EXPECT_NE(one.id(), two.id());
  const auto a = runtime().allocate<std::uint32_t>(64, one);
  (void)launch_fill(a, 1, one);
  (void)launch_fill(a, 2, two);
  (void)launch_fill(a, 3, one);
  EXPECT_EQ(download(a, two), std::vector<std::uint32_t>(64, 3));
}

TEST_P(adopted_stream_on, must_not_be_none) {
  EXPECT_TRUE(
      throws(errc::invalid_argument, "stream", [&] { (void)runtime().adopt_stream(nullptr); }));
  if (GetParam() == "cuda") {
    for (const std::uintptr_t special : {1, 2}) {  // cudaStreamLegacy, cudaStreamPerThread
      EXPECT_TRUE(throws(errc::invalid_argument, "default stream", [&] {
        (void)runtime().adopt_stream(reinterpret_cast<native_stream*>(special));
      }));
    }
  }
}

TEST(adopted_stream, must_be_of_the_same_host_device) {
  device_runtime runtime(open_host_device());
  const auto elsewhere = open_host_device();
  auto* const foreign = elsewhere->create_stream();
  EXPECT_TRUE(throws(errc::invalid_argument, "not a stream of this host device",
                     [&] { (void)runtime.adopt_stream(foreign); }));
  elsewhere->destroy_stream(foreign);
}

TEST(adopted_stream, is_refused_by_a_runtime_that_ends) {
  device_runtime runtime(open_host_device());
  auto* const foreign = runtime.device().create_stream();
  (void)runtime.shut_down();
  EXPECT_TRUE(throws(errc::shutting_down, "", [&] { (void)runtime.adopt_stream(foreign); }));
  runtime.device().destroy_stream(foreign);
}

}  // namespace
}  // namespace sluice::test
