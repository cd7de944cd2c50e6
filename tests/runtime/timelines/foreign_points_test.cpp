// SPDX-License-Identifier: Apache-2.0
// Points of other runtimes that a custom memory resource passes to a runtime.
#include "runtime/core/runtime_core.hpp"
#include "tests/support/devices.hpp"
#include "tests/support/expect_error.hpp"

#include <sluice/runtime/memory_resource.hpp>

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace sluice::test {
namespace {

/// Grants memory of `async` with points that the test chooses.
class meddling_resource final : public memory_resource {
 public:
  struct state {
    resource_context* context = nullptr;
    timeline_points inherited;
    int held = 0;
    timeline_points given_back_with;
  };
  explicit meddling_resource(std::shared_ptr<state> s) : state_(std::move(s)) {}

  void bind(resource_context& context) override {
    state_->context = &context;
    under_->bind(context);
  }
  granted_memory allocate(const allocation_request& request) override {
    auto granted = under_->allocate(request);
    granted.inherited.append(state_->inherited.view());
    ++state_->held;
    return granted;
  }
  void deallocate(allocation memory, stream_ref stream,
                  std::span<const timeline_point> unfinished) noexcept override {
    --state_->held;
    state_->given_back_with.append(unfinished);
    under_->deallocate(memory, stream, unfinished);
  }
  bool supports_use_tracking() const noexcept override { return true; }
  std::string_view name() const noexcept override { return "meddling"; }

 private:
  std::shared_ptr<state> state_;
  std::unique_ptr<memory_resource> under_ = make_async_resource();
};

class foreign_points : public named_device_test {
 protected:
  void SetUp() override {
    named_device_test::SetUp();
    if (IsSkipped()) return;
    runtime_ = std::make_unique<device_runtime>(
        open_device(GetParam()),
        runtime_options{.resource = std::make_unique<meddling_resource>(resource_)});
    stream_ = runtime_->create_stream();
    const device_runtime other(open_device(GetParam()));
    gone_ = take(detail::runtime_core::of(other)->make_timeline());
    stranger_ = std::make_unique<device_runtime>(open_device(GetParam()));
    elsewhere_ = stranger_->create_stream();
    foreign_ = take(*detail::timeline::of(elsewhere_.ref()));
  }
  static timeline_point take(detail::timeline& t) {
    t.reserve();
    return {t.id(), t.submit()};
  }
  [[nodiscard]] detail::timeline& line() const { return *detail::timeline::of(stream_.ref()); }
  [[nodiscard]] resource_context& context() const { return *resource_->context; }
  /// Points that this runtime does not know.
  [[nodiscard]] std::array<timeline_point, 3> unknown() const {
    return {foreign_, gone_, timeline_point{stream_.id(), line().newest().ticket + 1}};
  }

  std::shared_ptr<meddling_resource::state> resource_ =
      std::make_shared<meddling_resource::state>();
  std::unique_ptr<device_runtime> runtime_;
  sluice::stream stream_;
  std::unique_ptr<device_runtime> stranger_;
  sluice::stream elsewhere_;
  timeline_point foreign_;
  timeline_point gone_;  // its runtime has been destroyed
};
INSTANTIATE_TEST_SUITE_P(devices, foreign_points, every_device(), parameter_name);

TEST_P(foreign_points, are_never_settled) {
  elsewhere_.synchronize();
  for (const auto& point : unknown()) {
    context().look_at(point);
    EXPECT_FALSE(context().settled(point));
  }
  EXPECT_TRUE(context().settled({}));
}

TEST_P(foreign_points, are_not_waited_for) {
  for (const auto& point : unknown()) {
    EXPECT_TRUE(throws(errc::stream_misuse, "stream " + std::to_string(point.stream.index),
                       [&] { context().wait(stream_, point); }));
  }
  EXPECT_TRUE(throws(errc::stream_misuse, to_string(*device_of(foreign_.stream)),
                     [&] { context().wait(stream_, foreign_); }));
  // Streams of other runtimes do not wait either.
  const auto known_point = take(line());
  EXPECT_TRUE(throws(errc::stream_misuse, "", [&] { context().wait(elsewhere_, known_point); }));
  EXPECT_TRUE(throws(errc::stream_misuse, "", [&] { context().wait({}, known_point); }));
  context().wait(stream_, known_point);
}

TEST_P(foreign_points, free_nothing) {
  static bool reclaimed = false;
  const auto reclaim = [](void*, allocation) noexcept {
    reclaimed = true;
  };
  const auto known_point = take(line());
  for (const auto& point : unknown()) {
    const std::array points{known_point, point};
    EXPECT_TRUE(throws(errc::stream_misuse, "",
                       [&] { context().reclaim_after(points, {}, reclaim, nullptr); }));
  }
  stream_.synchronize();
  context().finish_reclaiming();
  EXPECT_FALSE(reclaimed);
}

TEST_P(foreign_points, are_not_inherited) {
  const auto known_point = take(line());
  for (const auto& point : unknown()) {
    resource_->inherited.clear();
    resource_->inherited.push_back(point);
    resource_->inherited.push_back(known_point);
    EXPECT_TRUE(throws(errc::stream_misuse, "",
                       [&] { (void)runtime_->allocate_bytes(64, stream_, "fresh"); }));
    EXPECT_EQ(resource_->held, 0) << "the memory has gone back";
    for (const auto& after : resource_->given_back_with) {
      EXPECT_EQ(after.stream.runtime, stream_.id().runtime);
    }
  }
  resource_->inherited.clear();
  resource_->inherited.push_back(known_point);
  EXPECT_EQ(runtime_->allocate_bytes(64, stream_, "fresh").bytes(), 64u);
}

TEST_P(foreign_points, name_their_device) {
  EXPECT_EQ(device_of(foreign_.stream), stranger_->device().id());
  EXPECT_EQ(device_of(gone_.stream), stranger_->device().id()) << "its runtime is gone";
  EXPECT_EQ(device_of({}), std::nullopt);
  EXPECT_EQ(device_of({~std::uint32_t{0}, 1}), std::nullopt);
  EXPECT_EQ(to_string(foreign_.stream), "stream " + std::to_string(foreign_.stream.index) +
                                            " of runtime " +
                                            std::to_string(foreign_.stream.runtime) + " (" +
                                            to_string(stranger_->device().id()) + ")");
  const auto block = runtime_->allocate_bytes(64, stream_);
  EXPECT_EQ(block.id().device, runtime_->device().id());
  EXPECT_EQ(block.id().runtime, stream_.id().runtime);
}

}  // namespace
}  // namespace sluice::test
