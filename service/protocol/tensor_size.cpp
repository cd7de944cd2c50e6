// SPDX-License-Identifier: Apache-2.0
#include "service/protocol/tensor_size.hpp"

namespace sluice::service {

std::optional<std::uint64_t> tensor_bytes(std::span<const std::int64_t> shape,
                                          datatype type) noexcept {
  std::uint64_t bytes = size_of(type);
  bool is_empty = false;
  for (const std::int64_t extent : shape) {
    if (extent < 0) return std::nullopt;
    if (extent == 0) {
      is_empty = true;
      continue;
    }
    const auto factor = static_cast<std::uint64_t>(extent);
    if (bytes > max_bytes / factor) return std::nullopt;
    bytes *= factor;
  }
  return is_empty ? 0 : bytes;
}

}  // namespace sluice::service
