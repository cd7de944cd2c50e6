// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/runtime/device_runtime.hpp>
#include <sluice/runtime/stream.hpp>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

namespace sluice::cuda {

/// The code of a kernel, which another thread may be making.
class kernel_code {
 public:
  enum class state : int { pending, made, refused };

  [[nodiscard]] state progress() const noexcept { return state_.load(std::memory_order_acquire); }
  /// Once it is made.
  [[nodiscard]] const std::vector<char>& bytes() const noexcept { return bytes_; }
  /// Once it is refused.
  [[nodiscard]] const std::string& refusal() const noexcept { return refusal_; }

  void set(std::vector<char> bytes) noexcept {
    bytes_ = std::move(bytes);
    state_.store(state::made, std::memory_order_release);
  }
  void refuse(std::string reason) noexcept {
    refusal_ = std::move(reason);
    state_.store(state::refused, std::memory_order_release);
  }

 private:
  std::atomic<state> state_{state::pending};
  std::vector<char> bytes_;
  std::string refusal_;
};

/// A lane whose programs may need kernels. Nothing is compiled while there is none, so that a
/// process that has closed its devices may end: at its end, the compiler is destroyed.
class kernel_client {
 public:
  kernel_client();
  /// For `lane_libraries`.
  kernel_client(device_runtime&, stream_ref) : kernel_client() {}
  kernel_client(const kernel_client&) = delete;
  kernel_client& operator=(const kernel_client&) = delete;
  /// If no other lane is left, waits for the kernel that is being compiled.
  ~kernel_client();
};

/// The code of the kernel with the text `text` for GPUs of a compute capability. What the process
/// or the disk has is there at once. Otherwise one thread of the process compiles it, one kernel
/// after the other, while there is a `kernel_client`. Thread-safe.
[[nodiscard]] std::shared_ptr<const kernel_code> code_of(const std::string& text, int architecture);

}  // namespace sluice::cuda
