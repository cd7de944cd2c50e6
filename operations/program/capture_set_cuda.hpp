// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/capture_scope.hpp"
#include "runtime/cuda/check.hpp"
#include "runtime/seam.hpp"

#include <sluice/operations/lane_libraries.hpp>
#include <sluice/runtime/launch_recorder.hpp>

#include <cuda_runtime_api.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <memory>
#include <optional>
#include <utility>

namespace sluice::cuda {

/// The alignment of memory in captured programs.
inline constexpr std::size_t capture_alignment = 256;
/// A stream of the driver that the runtime has adopted: unlike its own streams, such a stream may
/// be captured.
class capture_stream {
 public:
  explicit capture_stream(device_runtime& runtime)
      : device_(detail::runtime_core::of(runtime)->shared_device()) {
    const detail::library_call call(device_->id());
    device_->require_usable();
    const operations::capture_scope captures(*device_);
    const current_device_scope current(*device_);
    check(cudaStreamCreateWithFlags(&native_, cudaStreamNonBlocking));
    try {
      adopted_ = runtime.adopt_stream(reinterpret_cast<native_stream*>(native_));
    } catch (...) {
      destroy();
      throw;
    }
  }
  capture_stream(const capture_stream&) = delete;
  capture_stream& operator=(const capture_stream&) = delete;
  ~capture_stream() {
    const detail::library_call call(device_->id());
    const current_device_scope current(*device_);
    adopted_ = {};
    destroy();
  }

  [[nodiscard]] cudaStream_t native() const noexcept { return native_; }
  [[nodiscard]] stream_ref ref() const noexcept { return adopted_.ref(); }

 private:
  void destroy() noexcept {
    if (!device_->lost()) (void)cudaStreamDestroy(native_);
  }

  std::shared_ptr<device> device_;
  cudaStream_t native_ = nullptr;
  stream adopted_;
};

/// What the captures of one lane share. The graphs are launched on the stream of the lane, so no
/// two of them use it at the same time.
class capture_set {
 public:
  explicit capture_set(device_runtime& runtime)
      : runtime_(runtime), stream_(runtime), memory_stream_(runtime.create_stream()) {}

  [[nodiscard]] const capture_stream& stream() const noexcept { return stream_; }
  /// The stream of the memory. Nothing on it is captured.
  [[nodiscard]] stream_ref memory_stream() const noexcept { return memory_stream_; }
  /// The library objects of the captures of a lane. Their plans take the algorithms of the plans of
  /// the lane.
  [[nodiscard]] lane_libraries& libraries(const lane_libraries& lane) {
    if (!libraries_) {
      libraries_.emplace(runtime_, stream_.ref(),
                         algorithm_selection{.policy = lane.algorithms().policy});
    }
    return *libraries_;
  }
  /// Scratch memory of at least `bytes`, which every stream may use at once. The captured programs
  /// of the lane share it.
  [[nodiscard]] std::shared_ptr<const block_ref> scratch(std::size_t bytes) {
    auto memory = scratch_.lock();
    if (memory && memory->bytes() >= bytes) return memory;
    auto block = allocate(std::bit_ceil(bytes));
    // The memory may have been freed behind work of other streams.
    auto recorder = launch_recorder::strict(memory_stream_);
    recorder.use(block, access_kind::write, true);
    recorder.preflight();
    (void)recorder.commit();
    memory_stream_.synchronize();
    memory = std::make_shared<const block_ref>(std::move(block));
    scratch_ = memory;
    return memory;
  }
  /// Memory of which only the addresses are used. Nothing if there is none.
  [[nodiscard]] std::optional<block_ref> addresses(std::size_t bytes) {
    try {
      return allocate(std::max(bytes, capture_alignment));
    } catch (const error&) {
      return std::nullopt;
    }
  }

 private:
  /// Allocates on a stream of its own, because a capture would record frees on its stream.
  [[nodiscard]] block_ref allocate(std::size_t bytes) {
    return runtime_.allocate_bytes(bytes, memory_stream_, "captured programs");
  }

  device_runtime& runtime_;
  capture_stream stream_;
  sluice::stream memory_stream_;
  std::optional<lane_libraries> libraries_;  // once they are needed
  std::weak_ptr<const block_ref> scratch_;   // the captured programs own it
};

/// The set of a lane. Its graphs own it, too: they use the workspaces of its libraries.
struct capture_set_of_lane {
  capture_set_of_lane(device_runtime& runtime, stream_ref)
      : set(std::make_shared<capture_set>(runtime)) {}
  std::shared_ptr<capture_set> set;
};

}  // namespace sluice::cuda
