// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

/// The only access to NVTX. Without the CUDA toolkit at build time the functions do nothing.
namespace sluice::detail {

[[nodiscard]] bool nvtx_available() noexcept;
/// Begin and end a nested range of the calling thread.
void nvtx_push(const char* label) noexcept;
void nvtx_pop() noexcept;
/// Begins a range that any thread may end. Returns its id.
[[nodiscard]] std::uint64_t nvtx_begin(const char* label) noexcept;
void nvtx_end(std::uint64_t range) noexcept;

/// A range for the lifetime of the object. An empty label draws no range.
class nvtx_range {
 public:
  explicit nvtx_range(const char* label) noexcept : open_(label[0] != '\0') {
    if (open_) nvtx_push(label);
  }
  nvtx_range(const nvtx_range&) = delete;
  nvtx_range& operator=(const nvtx_range&) = delete;
  ~nvtx_range() {
    if (open_) nvtx_pop();
  }

 private:
  bool open_;
};

}  // namespace sluice::detail
