// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/seam.hpp"

#include <sluice/runtime/device_runtime.hpp>
#include <sluice/runtime/gpu_ref.hpp>
#include <sluice/runtime/stream.hpp>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>

namespace sluice::operations {

/// Scratch memory of one lane: used by launches on the lane's stream only, so that the stream's
/// order is all that they need among themselves, and no launch records it. What the queued launches
/// still use is given back behind them. Belongs to the lane; not thread-safe. It may go after the
/// runtime, which has taken the memory back then, but not be asked for more.
class workspace {
 public:
  workspace(device_runtime& runtime, stream_ref stream, allocation_tag tag) noexcept
      : runtime_(runtime), core_(detail::runtime_core::of(runtime)), stream_(stream), tag_(tag) {}
  workspace(const workspace&) = delete;
  workspace& operator=(const workspace&) = delete;
  ~workspace() { release(); }

  /// Makes it at least `bytes` large, for the next launch. It also shrinks: after `period` calls
  /// that needed less than a quarter of it, it gets the size of the largest need among them. That
  /// may take memory from the driver, so it waits for a call with another need than the one before:
  /// a launch that is repeated takes none. It waits no longer than for 16 times as many calls.
  ///
  /// The contents are lost and the address may change, which launches that are queued already do
  /// not notice. Does not synchronise.
  /// @throws error as `device_runtime::allocate_bytes`; then nothing has changed
  void require(std::size_t bytes) {
    const bool is_repeated = bytes == last_need_;
    last_need_ = bytes;
    if (bytes > this->bytes()) {
      replace(bytes);
    } else if (!block_) {
      return;
    } else if (4 * bytes >= this->bytes()) {
      small_needs_ = 0;
      largest_need_ = 0;
    } else {
      largest_need_ = std::max(largest_need_, bytes);
      if (++small_needs_ >= (is_repeated ? 16 * period : period)) shrink();
    }
  }
  /// The number of launches with a small need after which it shrinks.
  static constexpr std::size_t period = 256;

  /// The first byte, aligned to 256; null while nothing has been required.
  [[nodiscard]] void* address() const noexcept { return block_ ? block_.address() : nullptr; }
  [[nodiscard]] std::size_t bytes() const noexcept { return block_ ? block_.bytes() : 0; }

 private:
  void replace(std::size_t bytes) {
    block_ref other;
    if (bytes != 0) other = runtime_.allocate_bytes(bytes, stream_, tag_);
    release();
    block_ = std::move(other);
    small_needs_ = 0;
    largest_need_ = 0;
  }
  void shrink() noexcept {
    try {
      replace(largest_need_);
    } catch (...) {
      // There is no memory now; it tries again after as many launches.
      small_needs_ = 0;
    }
  }
  void release() noexcept {
    if (!block_) return;
    // Nothing on a lost device touches the memory in an order that matters.
    if (!block_.stale() && !core_->device().lost()) {
      try {
        // One use behind all launches, made now, stands for each of theirs.
        (void)core_->publish_use(block_, stream_, access_kind::read_write);
      } catch (...) {
        // The resource does not track uses, or the runtime takes no more work: then nothing may be
        // left in flight.
        try {
          stream_.synchronize();
        } catch (...) {
          // The device is lost.
        }
      }
    }
    block_ = block_ref();
  }

  device_runtime& runtime_;
  std::shared_ptr<detail::runtime_core> core_;
  stream_ref stream_;
  allocation_tag tag_;
  block_ref block_;
  std::size_t small_needs_ = 0;   // launches in a row that needed less than a quarter
  std::size_t largest_need_ = 0;  // among these launches, in bytes
  std::size_t last_need_ = 0;     // of the launch before
};

}  // namespace sluice::operations
