// SPDX-License-Identifier: Apache-2.0
// Words to which an idle stream writes its next ticket, and which tell of the completion before the
// event does. The device of the tests is a host device whose words the tests write.
#include "runtime/timelines/completion_words.hpp"

#include "runtime/timelines/timeline.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/forwarding_device.hpp"
#include "tests/support/gate.hpp"

#include <sluice/runtime/device_runtime.hpp>
#include <sluice/runtime/host_device.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

/// A device that leaves its words to the test, or writes them in the order of their stream.
class device_with_words final : public forwarding_device {
 public:
  struct write {
    std::atomic<std::uint32_t>* word;
    std::uint32_t value;
    void land() const { word->store(value, std::memory_order_release); }
  };

  device_with_words() : forwarding_device({device_kind::host, 0}, open_host_device()) {}
  ~device_with_words() override {
    // Words that the test has not written.
    for (auto* const address : staging) forwarding_device::deallocate_staging(address);
  }
  [[nodiscard]] bool tells_completion_by_words() const noexcept override { return true; }
  void write_word(native_stream* stream, std::atomic<std::uint32_t>& word,
                  std::uint32_t value) override {
    if (writes_land) forwarding_device::write_word(stream, word, value);
    if (next_write_fails.exchange(false)) {
      throw error(errc::library_failure, "no stream memory operation");
    }
    const std::lock_guard lock(mutex_);
    writes_.push_back({&word, value});
  }
  void record(native_event* event, std::uint64_t value, native_stream* stream) override {
    if (next_record_fails.exchange(false)) throw error(errc::library_failure, "no record");
    forwarding_device::record(event, value, stream);
  }
  void* allocate_staging(std::size_t bytes) override {
    if (no_memory) throw error(errc::out_of_memory, "no pinned memory");
    auto* const address = forwarding_device::allocate_staging(bytes);
    staging.insert(address);
    return address;
  }
  void deallocate_staging(void* address) noexcept override {
    staging.erase(address);
    forwarding_device::deallocate_staging(address);
  }

  /// The writes since the last call of `forget_writes`.
  [[nodiscard]] std::vector<write> writes() const {
    const std::lock_guard lock(mutex_);
    return writes_;
  }
  void forget_writes() {
    const std::lock_guard lock(mutex_);
    writes_.clear();
  }

  std::atomic<bool> next_write_fails{false};
  std::atomic<bool> next_record_fails{false};
  bool no_memory = false;
  bool writes_land = false;
  std::set<void*> staging;

 private:
  mutable std::mutex mutex_;
  std::vector<write> writes_;
};

class completion_words : public ::testing::Test {
 protected:
  void TearDown() override {
    stream_ = stream();
    runtime_.reset();
  }
  void open(runtime_options options = {}) {
    runtime_.emplace(device_, std::move(options));
    stream_ = runtime_->create_stream();
    device_->forget_writes();  // of the streams of the runtime
  }
  [[nodiscard]] detail::timeline& line() { return *detail::timeline::of(stream_.ref()); }
  std::uint64_t take() {
    line().reserve();
    return line().submit();
  }

  std::shared_ptr<device_with_words> device_ = std::make_shared<device_with_words>();
  std::optional<device_runtime> runtime_;
  stream stream_;
};

TEST_F(completion_words, complete_a_ticket_before_its_event) {
  open();
  gate closed;
  closed.hold(stream_.ref());
  const auto ticket = take();
  ASSERT_EQ(device_->writes().size(), 1U);
  EXPECT_EQ(device_->writes()[0].value, ticket);
  EXPECT_LT(line().advance(), ticket) << "neither the word nor the event tells of it";
  device_->writes()[0].land();
  EXPECT_EQ(line().advance(), ticket);
  EXPECT_TRUE(line().completed(ticket));
}

TEST_F(completion_words, are_written_for_tickets_that_are_alone) {
  open();
  gate closed;
  closed.hold(stream_.ref());
  const auto first = take();
  const auto second = take();
  EXPECT_EQ(device_->writes().size(), 1U) << "the second one finds the first one in flight";
  device_->writes()[0].land();
  EXPECT_EQ(line().advance(), first) << "the word says nothing of the second one";
  closed.open();
  line().wait_until(second);
  const auto third = take();
  ASSERT_EQ(device_->writes().size(), 2U);
  EXPECT_EQ(device_->writes()[1].value, third);
  line().wait_until(third);  // its event tells of it
}

TEST_F(completion_words, are_not_used_after_a_failed_write) {
  open();
  device_->next_write_fails = true;
  line().wait_until(take());
  line().wait_until(take());
  EXPECT_TRUE(device_->writes().empty());
  auto former = std::exchange(stream_, runtime_->create_stream());
  line().wait_until(take());
  EXPECT_TRUE(device_->writes().empty()) << "other streams do without, too";
}

// A ticket whose record failed is given to the next launch, and its word may be written at any
// time.
TEST_F(completion_words, are_not_used_after_a_write_without_a_record) {
  open();
  device_->next_record_fails = true;
  line().reserve();
  EXPECT_TRUE(throws(errc::library_failure, "no record", [&] { (void)line().submit(); }));
  ASSERT_EQ(device_->writes().size(), 1U);
  gate closed;
  closed.hold(stream_.ref());
  const auto ticket = take();
  EXPECT_EQ(device_->writes()[0].value, ticket);
  EXPECT_EQ(device_->writes().size(), 1U);
  device_->writes()[0].land();
  EXPECT_LT(line().advance(), ticket);
  closed.open();
  line().wait_until(ticket);
}

TEST_F(completion_words, are_not_needed) {
  device_->no_memory = true;
  open();
  line().wait_until(take());
  EXPECT_TRUE(device_->writes().empty());
}

TEST_F(completion_words, are_not_used_with_explicit_waits) {
  open({.explicit_waits = true});
  line().wait_until(take());
  EXPECT_TRUE(device_->writes().empty());
  EXPECT_TRUE(device_->staging.empty());
}

TEST_F(completion_words, serve_many_streams_one_after_the_other) {
  device_->writes_land = true;
  open();
  std::set<std::atomic<std::uint32_t>*> words;
  for (int i = 0; i < 300; ++i) {
    stream_ = runtime_->create_stream();
    const auto ticket = take();
    words.insert(device_->writes().back().word);
    line().wait_until(ticket);
  }
  EXPECT_LT(words.size(), 300U) << "words of streams that have ended are used again";
  stream_ = stream();
  runtime_.reset();
  EXPECT_TRUE(device_->staging.empty());
}

}  // namespace
}  // namespace sluice::test
