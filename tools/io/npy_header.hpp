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
/// have exactly these three keys once each, an element type among `types`, and at most 64
/// dimensions, none of them negative. @throws error `invalid_argument` otherwise. The text names
/// the file `name`
[[nodiscard]] npy_header parse_npy_header(std::string_view dictionary, std::string_view name,
                                          std::span<const element_type> types);

/// The header of a little-endian file of version 1.0 in C order: all bytes before the elements, a
/// multiple of 64. @throws error `invalid_argument` if the shape does not fit into such a header
/// @throws error `unsupported` for e4m3, e5m2 and bf16, which NumPy does not have
[[nodiscard]] std::string format_npy_header(element_type type, std::span<const std::int64_t> shape);

}  // namespace sluice::io
