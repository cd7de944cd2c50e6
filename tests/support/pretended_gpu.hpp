#pragma once

#include <sluice/runtime/device.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace sluice::test {

/// A host device that says it is a GPU: its launches do not fail by themselves, its memory can be
/// copied to another one's. So what the runtime does between GPUs runs, and is watched by
/// ThreadSanitizer, where there are none. As on a GPU, what is queued runs on when it is declared
/// lost. Gates and host tasks do not work on it.
class pretended_gpu final : public device {
 public:
  /// Devices that wait for each other's events share a `real` one: as on a GPU, an event may go
  /// while it is waited for.
  pretended_gpu(int ordinal, std::shared_ptr<device> real)
      : device({device_kind::cuda, ordinal}), real_(std::move(real)) {}

  enum class call : std::uint8_t {
    record,
    query,
    allocate_staging,
    copy,
    copy_from_peer,
    prepare_copies_from
  };
  /// Is called in each of these, by any thread: behind the copies, before the others, and may throw
  /// where they may. Set it before a runtime is made of the device.
  std::function<void(call)> watch = [](call) {
  };

  [[nodiscard]] device_info info() const override {
    auto told = real_->info();
    told.id = id();
    return told;
  }
  native_stream* create_stream(stream_priority p) override { return real_->create_stream(p); }
  void require_adoptable(native_stream* s) override { real_->require_adoptable(s); }
  void destroy_stream(native_stream* s) noexcept override { real_->destroy_stream(s); }
  void synchronize(native_stream* s) override { real_->synchronize(s); }
  native_event* create_event() override { return real_->create_event(); }
  void destroy_event(native_event* e) noexcept override { real_->destroy_event(e); }
  void record(native_event* e, std::uint64_t value, native_stream* s) override {
    watch(call::record);
    require_usable();
    real_->record(e, value, s);
  }
  void wait(native_stream* s, native_event* e, std::uint64_t value) override {
    require_usable();
    real_->wait(s, e, value);
  }
  void require_followable(native_stream* s) override { real_->require_followable(s); }
  void follow(native_stream* s, native_stream* source) override { real_->follow(s, source); }
  event_state query(native_event* e, std::uint64_t value) noexcept override {
    watch(call::query);
    return lost() ? event_state::lost : real_->query(e, value);
  }
  void acquire(native_event* e, std::uint64_t value) noexcept override { real_->acquire(e, value); }
  error failure_of(native_event* e) override { return real_->failure_of(e); }
  [[nodiscard]] bool reports_task_failures() const noexcept override { return false; }
  void* allocate(std::size_t bytes) override { return real_->allocate(bytes); }
  void deallocate(void* address) noexcept override { real_->deallocate(address); }
  void* allocate_async(std::size_t bytes, native_stream* s) override {
    return real_->allocate_async(bytes, s);
  }
  void deallocate_async(void* address, native_stream* s) noexcept override {
    if (!lost()) real_->deallocate_async(address, s);
  }
  std::size_t trim_async() noexcept override { return real_->trim_async(); }
  void* allocate_staging(std::size_t bytes) override {
    watch(call::allocate_staging);
    return real_->allocate_staging(bytes);
  }
  void deallocate_staging(void* address) noexcept override {
    if (!lost()) {
      real_->deallocate_staging(address);
      return;
    }
    // As on a GPU it stays: what is queued may still use it.
    static std::mutex mutex;
    static std::vector<void*> staying;
    const std::lock_guard lock(mutex);
    staying.push_back(address);
  }
  void copy(void* to, const void* from, std::size_t bytes, copy_direction direction,
            native_stream* s) override {
    real_->copy(to, from, bytes, direction, s);
    watch(call::copy);
  }
  void copy_from_peer(void* to, device&, const void* from, std::size_t bytes,
                      native_stream* s) override {
    real_->copy(to, from, bytes, copy_direction::device_to_device, s);
    watch(call::copy_from_peer);
  }
  void prepare_copies_from(device&) override { watch(call::prepare_copies_from); }
  void wait_for_word(native_stream* s, const std::atomic<std::uint32_t>& word) override {
    real_->wait_for_word(s, word);
  }
  void fill(void* to, const void* pattern, std::size_t pattern_bytes, std::size_t count,
            native_stream* s) override {
    real_->fill(to, pattern, pattern_bytes, count, s);
  }
  void notify(native_stream* s, std::function<void()> function) override {
    real_->notify(s, std::move(function));
  }
  bool quiescent(native_stream*, native_event*) noexcept override { return lost(); }

 private:
  std::shared_ptr<device> real_;
};

}  // namespace sluice::test
