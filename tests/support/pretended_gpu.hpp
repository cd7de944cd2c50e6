// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/support/forwarding_device.hpp"

#include <mutex>
#include <vector>

namespace sluice::test {

/// A host device that presents itself as a GPU.
///
/// It runs the code of the runtime that orders GPUs, on machines without GPUs and under
/// ThreadSanitizer. Single launches cannot fail, and copies to other pretended GPUs work. Queued
/// work continues after a loss, as on a GPU. Host tasks do not work.
class pretended_gpu : public forwarding_device {
 public:
  /// Devices that wait for each other's events share one `real` device, so an event may be
  /// destroyed while a stream waits for it, as on a GPU.
  pretended_gpu(int ordinal, std::shared_ptr<device> real)
      : forwarding_device({device_kind::cuda, ordinal}, std::move(real)) {}

  enum class call : std::uint8_t { record, query, allocate_staging, prepare_copies_from };
  /// Called before each of these calls, on any thread. It may throw where the call may throw. Set
  /// it before a runtime uses the device.
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
    // As on a GPU, the memory is not freed after a loss, because queued work may still use it.
    static std::mutex mutex;
    static auto& staying = *new std::vector<void*>;
    const std::lock_guard lock(mutex);
    staying.push_back(address);
  }
  void copy_from_peer(void* destination, device&, const void* source, std::size_t bytes,
                      native_stream* s) override {
    real().copy(destination, source, bytes, copy_direction::device_to_device, s);
  }
  void prepare_copies_from(device&) override { watch(call::prepare_copies_from); }
  bool quiescent(native_stream*, native_event*) noexcept override { return lost(); }
};

}  // namespace sluice::test
