// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/runtime/device.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

namespace sluice::test {

/// A device that forwards every call to another device. Tests override single calls.
class forwarding_device : public device {
 public:
  forwarding_device(device_id id, std::shared_ptr<device> real)
      : device(id), real_(std::move(real)) {}

  [[nodiscard]] device_info info() const override {
    auto told = real_->info();
    told.id = id();
    return told;
  }
  [[nodiscard]] void* enter() noexcept override { return real_->enter(); }
  void leave(void* previous) noexcept override { real_->leave(previous); }
  [[nodiscard]] bool enter_capture() noexcept override { return real_->enter_capture(); }
  void leave_capture() noexcept override { real_->leave_capture(); }
  native_stream* create_stream(stream_priority p) override { return real_->create_stream(p); }
  void require_adoptable(native_stream* s) override { real_->require_adoptable(s); }
  void destroy_stream(native_stream* s) noexcept override { real_->destroy_stream(s); }
  void synchronize(native_stream* s) override { real_->synchronize(s); }
  native_event* create_event() override { return real_->create_event(); }
  void destroy_event(native_event* e) noexcept override { real_->destroy_event(e); }
  void record(native_event* e, std::uint64_t value, native_stream* s) override {
    real_->record(e, value, s);
  }
  void wait(native_stream* s, native_event* e, std::uint64_t value) override {
    real_->wait(s, e, value);
  }
  void require_followable(native_stream* s) override { real_->require_followable(s); }
  void follow(native_stream* s, native_stream* source) override { real_->follow(s, source); }
  event_state query(native_event* e, std::uint64_t value) noexcept override {
    return real_->query(e, value);
  }
  void acquire(native_event* e, std::uint64_t value) noexcept override { real_->acquire(e, value); }
  error failure_of(native_event* e) override { return real_->failure_of(e); }
  [[nodiscard]] bool reports_task_failures() const noexcept override {
    return real_->reports_task_failures();
  }
  native_timestamp* create_timestamp() override { return real_->create_timestamp(); }
  void destroy_timestamp(native_timestamp* t) noexcept override { real_->destroy_timestamp(t); }
  bool record_timestamp(native_timestamp* t, native_stream* s) noexcept override {
    return real_->record_timestamp(t, s);
  }
  std::unique_ptr<timestamp_clock> make_timestamp_clock() override {
    return real_->make_timestamp_clock();
  }
  void* allocate(std::size_t bytes) override { return real_->allocate(bytes); }
  void deallocate(void* address) noexcept override { real_->deallocate(address); }
  void* allocate_async(std::size_t bytes, native_stream* s) override {
    return real_->allocate_async(bytes, s);
  }
  void deallocate_async(void* address, native_stream* s) noexcept override {
    real_->deallocate_async(address, s);
  }
  void deallocate_finished(void* address) noexcept override { real_->deallocate_finished(address); }
  std::size_t trim_async() noexcept override { return real_->trim_async(); }
  std::size_t pool_bytes() noexcept override { return real_->pool_bytes(); }
  void* allocate_staging(std::size_t bytes) override { return real_->allocate_staging(bytes); }
  void deallocate_staging(void* address) noexcept override { real_->deallocate_staging(address); }
  void pin(void* address, std::size_t bytes) override { real_->pin(address, bytes); }
  void unpin(void* address) noexcept override { real_->unpin(address); }
  void copy(void* destination, const void* source, std::size_t bytes, copy_direction direction,
            native_stream* s) override {
    real_->copy(destination, source, bytes, direction, s);
  }
  void copy_from_peer(void* destination, device& peer, const void* source, std::size_t bytes,
                      native_stream* s) override {
    real_->copy_from_peer(destination, peer, source, bytes, s);
  }
  bool supports_words() const noexcept override { return real_->supports_words(); }
  void wait_for_word(native_stream* s, const std::atomic<std::uint32_t>& word,
                     std::uint32_t value) override {
    real_->wait_for_word(s, word, value);
  }
  void write_word(native_stream* s, std::atomic<std::uint32_t>& word,
                  std::uint32_t value) override {
    real_->write_word(s, word, value);
  }
  void fill(void* destination, const void* pattern, std::size_t pattern_bytes, std::size_t count,
            native_stream* s) override {
    real_->fill(destination, pattern, pattern_bytes, count, s);
  }
  void notify(native_stream* s, std::function<void()> function) override {
    real_->notify(s, std::move(function));
  }
  bool quiescent(native_stream* s, native_event* last) noexcept override {
    return real_->quiescent(s, last);
  }

 protected:
  [[nodiscard]] device& real() const noexcept { return *real_; }

 private:
  std::shared_ptr<device> real_;
};

}  // namespace sluice::test
