// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/runtime/element_type.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::io {

/// The contents of the dictionary at the beginning of a NumPy file.
struct npy_header {
  element_type type = element_type::f32;
  bool byte_swapped = false;  ///< the byte order differs from this machine's
  bool fortran_order = false;
  std::vector<std::int64_t> shape;
};

/// Parses the dictionary: a Python literal such as
/// `{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }`, followed by white space. It must
/// have exactly these three keys once each, an element type of f32, f64, c64 or c128, and at most
/// 64 dimensions, none of them negative. @throws error `invalid_argument` otherwise. The text names
/// the file `name`; for another element type it says that `types` are needed
[[nodiscard]] npy_header parse_npy_header(std::string_view dictionary, std::string_view name,
                                          std::string_view types);

/// The header of a little-endian file of version 1.0 in C order: all bytes before the elements, a
/// multiple of 64. @throws error `invalid_argument` if the shape does not fit into such a header
[[nodiscard]] std::string format_npy_header(element_type type, std::span<const std::int64_t> shape);

}  // namespace sluice::io
