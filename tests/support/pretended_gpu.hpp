// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/support/forwarding_device.hpp"

#include <mutex>
#include <vector>

namespace sluice::test {

/// A host device that says it is a GPU: its launches do not fail by themselves, its memory can be
/// copied to another one's. So what the runtime does between GPUs runs, and is watched by
/// ThreadSanitizer, where there are none. As on a GPU, what is queued runs on when it is declared
/// lost. Host tasks do not work on it.
class pretended_gpu : public forwarding_device {
 public:
  /// Devices that wait for each other's events share a `real` one: as on a GPU, an event may go
  /// while it is waited for.
  pretended_gpu(int ordinal, std::shared_ptr<device> real)
      : forwarding_device({device_kind::cuda, ordinal}, std::move(real)) {}

  enum class call : std::uint8_t { record, query, allocate_staging, prepare_copies_from };
  /// Is called before each of these, by any thread, and may throw where they may. Set it before a
  /// runtime is made of the device.
  std::function<void(call)> watch = [](call) {
  };

  void record(native_event* e, std::uint64_t value, native_stream* s) override {
    watch(call::record);
    require_usable();
    real().record(e, value, s);
  }
  void wait(native_stream* s, native_event* e, std::uint64_t value) override {
    require_usable();
    real().wait(s, e, value);
  }
  event_state query(native_event* e, std::uint64_t value) noexcept override {
    watch(call::query);
    return lost() ? event_state::lost : real().query(e, value);
  }
  [[nodiscard]] bool reports_task_failures() const noexcept override { return false; }
  void deallocate_async(void* address, native_stream* s) noexcept override {
    if (!lost()) real().deallocate_async(address, s);
  }
  void deallocate_finished(void* address) noexcept override {
    if (!lost()) real().deallocate_finished(address);
  }
  void* allocate_staging(std::size_t bytes) override {
    watch(call::allocate_staging);
    return real().allocate_staging(bytes);
  }
  void deallocate_staging(void* address) noexcept override {
    if (!lost()) {
      real().deallocate_staging(address);
      return;
    }
    // As on a GPU it stays: what is queued may still use it.
    static std::mutex mutex;
    static auto& staying = *new std::vector<void*>;
    const std::lock_guard lock(mutex);
    staying.push_back(address);
  }
  void copy_from_peer(void* to, device&, const void* from, std::size_t bytes,
                      native_stream* s) override {
    real().copy(to, from, bytes, copy_direction::device_to_device, s);
  }
  void prepare_copies_from(device&) override { watch(call::prepare_copies_from); }
  bool quiescent(native_stream*, native_event*) noexcept override { return lost(); }
};

}  // namespace sluice::test
