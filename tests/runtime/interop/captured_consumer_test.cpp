// SPDX-License-Identifier: Apache-2.0
// The end of an export while its consumer's stream is being captured. The device simulates
// captures; cuda/cuda_capture_test.cpp tests those of CUDA.
#include "runtime/core/runtime_core.hpp"
#include "tests/support/collected_reports.hpp"
#include "tests/support/devices.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/forwarding_device.hpp"
#include "tests/support/gate.hpp"
#include "tests/support/seed.hpp"
#include "tests/support/small_launches.hpp"

#include <sluice/runtime/dlpack.hpp>
#include <sluice/runtime/host_device.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

/// A host device that simulates the capture of one stream. During the capture it is an error to
/// follow this stream or to wait for it.
class capturing_device final : public forwarding_device {
 public:
  capturing_device() : forwarding_device({device_kind::host, 0}, open_host_device()) {}

  void capture(native_stream* stream) { captured_.store(stream); }
  /// The number of accesses to the captured stream.
  [[nodiscard]] int mistakes() const { return mistakes_.load(); }
  /// The number of calls of `follow`. Reading it synchronizes with these calls.
  [[nodiscard]] int follows() const { return follows_.load(std::memory_order_acquire); }

  bool capturing(native_stream* stream) noexcept override {
    return stream != nullptr && captured_.load() == stream;
  }
  void synchronize(native_stream* stream) override {
    touch(stream);
    real().synchronize(stream);
  }
  void follow(native_stream* stream, native_stream* source) override {
    touch(stream);
    touch(source);
    real().follow(stream, source);
    follows_.fetch_add(1, std::memory_order_release);
  }
  void record(native_event* event, std::uint64_t value, native_stream* stream) override {
    touch(stream);
    real().record(event, value, stream);
  }

 private:
  void touch(native_stream* stream) {
    if (!capturing(stream)) return;
    mistakes_.fetch_add(1);
    throw error(errc::library_failure, "the capture is broken");
  }

  std::atomic<native_stream*> captured_{nullptr};
  std::atomic<int> mistakes_{0};
  std::atomic<int> follows_{0};
};

class captured_consumer : public ::testing::Test {
 protected:
  void SetUp() override {
    runtime_ = std::make_unique<device_runtime>(device_);
    stream_ = runtime_->create_stream();
    consumer_runtime_ = std::make_unique<device_runtime>(open_host_device());
    consumer_ = consumer_runtime_->create_stream();
  }
  void TearDown() override {
    EXPECT_EQ(device_->mistakes(), 0);
    stream_ = {};
    runtime_.reset();
    consumer_ = {};
  }

  [[nodiscard]] native_stream* consumers() const { return consumer_.ref().native(); }
  [[nodiscard]] gpu_ref<std::uint32_t> filled(std::uint32_t value) {
    auto ref = runtime_->allocate<std::uint32_t>(count, stream_);
    (void)launch_fill(ref, value, stream_);
    return ref;
  }
  /// The consumer writes `value` after `closed`.
  void write_late(gate& closed, void* destination, std::uint32_t value) {
    closed.hold(consumer_);
    consumer_runtime_->device().fill(destination, &value, sizeof value, count, consumers());
  }
  void await_no_exports() {
    await([&] { return runtime_->statistics().exports == 0; });
  }

  static constexpr std::size_t count = 100;
  std::mt19937_64 generator_ = make_generator();
  std::shared_ptr<capturing_device> device_ = std::make_shared<capturing_device>();
  std::unique_ptr<device_runtime> consumer_runtime_;
  std::unique_ptr<device_runtime> runtime_;
  sluice::stream stream_;
  sluice::stream consumer_;
};

TEST_F(captured_consumer, keeps_its_memory_from_others_until_the_capture_has_ended) {
  const auto value = static_cast<std::uint32_t>(generator_());
  const auto a = filled(value + 1);
  auto* out = export_dlpack(*runtime_, a, {.stream = foreign_stream(consumers())});
  gate closed;
  write_late(closed, out->tensor.data, value);
  device_->capture(consumers());
  std::thread([out] { out->deleter(out); }).join();
  EXPECT_EQ(runtime_->statistics().exports, 1u);
  EXPECT_TRUE(throws(errc::stream_misuse, "captured", [&] { (void)download(a, stream_); }));
  EXPECT_TRUE(throws(errc::stream_misuse, "captured",
                     [&] { (void)runtime_->prepare_use(a.block(), stream_, access_kind::read); }));
  EXPECT_TRUE(throws(errc::stream_misuse, "captured", [&] { (void)export_dlpack(*runtime_, a); }));
  EXPECT_EQ(runtime_->statistics().leases, 0u);
  EXPECT_EQ(download(filled(1), stream_), std::vector<std::uint32_t>(count, 1)) << "of another";
  device_->capture(nullptr);
  await_no_exports();
  // Ordered after the consumer's write, which has not happened yet.
  auto read = std::vector<std::uint32_t>(count);
  auto recorder = begin_read(a, stream_);
  device_->copy(read.data(), a.data(), a.bytes(), copy_direction::device_to_host,
                stream_.ref().native());
  (void)recorder.commit();
  closed.open();
  stream_.synchronize();
  EXPECT_EQ(read, std::vector<std::uint32_t>(count, value));
}

TEST_F(captured_consumer, keeps_freed_memory_until_it_has_used_it) {
  const auto value = static_cast<std::uint32_t>(generator_());
  auto a = filled(value);
  auto* out = export_dlpack(*runtime_, a, {.stream = foreign_stream(consumers())});
  gate closed;
  write_late(closed, out->tensor.data, value);
  device_->capture(consumers());
  runtime_->deallocate(a.block());
  a = {};
  out->deleter(out);
  EXPECT_EQ(runtime_->statistics().bytes_outstanding, count * sizeof(std::uint32_t));
  device_->capture(nullptr);
  await_no_exports();
  EXPECT_EQ(runtime_->statistics().bytes_outstanding, 0u);
  // The pool reuses the memory, ordered after the consumer's write.
  const auto b = filled(value + 1);
  closed.open();
  EXPECT_EQ(download(b, stream_), std::vector<std::uint32_t>(count, value + 1));
}

TEST_F(captured_consumer, outlives_the_runtime_which_ends_quietly) {
  const std::weak_ptr<detail::runtime_core> core = detail::runtime_core::of(*runtime_);
  {
    const auto a = filled(1);
    auto* out = export_dlpack(*runtime_, a, {.stream = foreign_stream(consumers())});
    device_->capture(consumers());
    out->deleter(out);
  }
  stream_ = {};
  const collected_reports reports;
  runtime_.reset();
  EXPECT_EQ(reports.text(), "");
  EXPECT_FALSE(core.expired());
  const auto before = device_->follows();
  device_->capture(nullptr);
  await([&] { return core.expired(); });
  // The expired core orders nothing. Reading `follows` orders this thread before the consumer's
  // stream is destroyed.
  EXPECT_EQ(device_->follows(), before + 1);
}

TEST_F(captured_consumer, keeps_nothing_of_a_lost_device) {
  const auto a = filled(1);
  auto* out = export_dlpack(*runtime_, a, {.stream = foreign_stream(consumers())});
  stream_.synchronize();
  device_->capture(consumers());
  out->deleter(out);
  EXPECT_EQ(runtime_->statistics().exports, 1u);
  device_->lose(error(errc::library_failure, "the cause"));
  await_no_exports();
}

TEST_F(captured_consumer, stream_that_was_adopted_takes_no_launch) {
  const auto foreign = device_->create_stream(stream_priority::normal);
  const auto adopted = runtime_->adopt_stream(foreign);
  const auto a = filled(1);
  device_->capture(foreign);
  for (const bool preflight : {true, false}) {
    EXPECT_TRUE(throws(errc::stream_misuse, "being captured", [&] {
      auto recorder = launch_recorder::strict(adopted);
      recorder.write(a);
      if (preflight) recorder.preflight();
      (void)recorder.commit();
    }));
  }
  EXPECT_FALSE(device_->lost());
  EXPECT_EQ(runtime_->statistics().leases, 0u);
  device_->capture(nullptr);
  EXPECT_EQ(download(a, adopted), std::vector<std::uint32_t>(count, 1));
}

}  // namespace
}  // namespace sluice::test
