// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/elementwise/storage.hpp"

#include <sluice/host_device_code.hpp>

#include <cstdint>
#include <limits>

// Scaled dot-product attention. Kernels include this header, so it compiles as C++17.
namespace sluice {
struct native_stream;
}

namespace sluice::operations {

/// One attention. Strides are along batch, heads, sequence and elements of a head; those of the
/// mask along batch, heads, queries and keys.
struct attention_call {
  std::int64_t batch = 0;
  std::int64_t heads = 0;
  std::int64_t sharing = 1;     ///< heads of Q that share a head of K and V
  std::int64_t queries = 0;     ///< N
  std::int64_t keys = 0;        ///< M
  std::int64_t key_size = 0;    ///< D
  std::int64_t value_size = 0;  ///< E
  std::int64_t q[4]{};
  std::int64_t k[4]{};
  std::int64_t v[4]{};
  std::int64_t mask[4]{};
  std::int64_t y[4]{};
  std::int64_t diagonal = 0;  ///< a query i sees keys up to i + diagonal, if it is causal
  float scale = 1;
  storage type = storage::f32;
  storage mask_type = storage::boolean;
  bool has_mask = false;
  bool is_causal = false;

  /// The keys that queries before `end` may see.
  [[nodiscard]] SLUICE_HOST_DEVICE std::int64_t visible_keys(std::int64_t end) const noexcept {
    if (!is_causal || end + diagonal > keys) return keys;
    return end + diagonal > 0 ? end + diagonal : 0;
  }
  /// Where a head begins; `strides` are those of q, y or the mask.
  [[nodiscard]] static SLUICE_HOST_DEVICE std::int64_t head_offset(const std::int64_t* strides,
                                                                   std::int64_t image,
                                                                   std::int64_t head) noexcept {
    return image * strides[0] + head * strides[1];
  }
  /// What the mask makes of a score.
  [[nodiscard]] SLUICE_HOST_DEVICE float masked(float score, const void* masks,
                                                std::int64_t i) const noexcept {
    if (mask_type != storage::boolean) return score + load<float>(mask_type, masks, i);
    return element_at<std::uint8_t>(masks, i) != 0 ? score : -infinite_score;
  }
  /// Of hidden keys.
  static constexpr float infinite_score = std::numeric_limits<float>::infinity();
};

/// The operands of an attention; `mask` is nullptr if not given.
struct attention_addresses {
  const void* q = nullptr;
  const void* k = nullptr;
  const void* v = nullptr;
  const void* mask = nullptr;
  void* y = nullptr;
};

/// Loads the kernels. Returns a `cudaError_t`.
///@{
[[nodiscard]] int load_attention();
[[nodiscard]] int load_tensor_core_attention();
[[nodiscard]] int load_split_attention();
[[nodiscard]] int load_warpgroup_attention();
///@}

/// Queues an attention with at least one element on a stream of the current device. Returns a
/// `cudaError_t`.
///@{
[[nodiscard]] int launch_attention(const attention_call& call, const attention_addresses& addresses,
                                   native_stream* stream);
/// Likewise on tensor cores, if `suits_tensor_cores(call)` and the device has compute capability
/// 8.0 or above, and this many multiprocessors.
[[nodiscard]] int launch_tensor_core_attention(const attention_call& call,
                                               const attention_addresses& addresses, int processors,
                                               native_stream* stream);
/// Likewise, if also `suits_split_attention`.
[[nodiscard]] int launch_split_attention(const attention_call& call,
                                         const attention_addresses& addresses,
                                         native_stream* stream);
/// Likewise with products of warpgroups, if also `has_warpgroup_attention()`.
[[nodiscard]] int launch_warpgroup_attention(const attention_call& call,
                                             const attention_addresses& addresses, int processors,
                                             native_stream* stream);
///@}
/// Whether the kernel that divides the keys among the warps of a block can compute an attention,
/// and is the fastest one on a device with this many multiprocessors. That is so if a kernel takes
/// little time in sum, or most of it for the mask.
[[nodiscard]] bool suits_split_attention(const attention_call& call,
                                         const attention_addresses& addresses, int processors);
/// Whether kernels with products of warpgroups exist for the current device.
[[nodiscard]] bool has_warpgroup_attention();
/// Whether the heads are of 16-bit numbers and small enough.
[[nodiscard]] inline bool suits_tensor_cores(const attention_call& call) noexcept {
  constexpr std::int64_t most_rows = 1 << 30;
  return call.type != storage::f32 && call.key_size <= 128 && call.value_size <= 128 &&
         call.queries <= most_rows && call.keys <= most_rows;
}

}  // namespace sluice::operations
