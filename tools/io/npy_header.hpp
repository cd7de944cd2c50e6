#pragma once

#include <sluice/runtime/element_type.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::io {

/// What the dictionary at the beginning of a NumPy file says.
struct npy_header {
  element_type type = element_type::f32;
  bool byte_swapped = false;  ///< the elements are not in this machine's byte order
  bool fortran_order = false;
  std::vector<std::int64_t> shape;
};

/// Reads the dictionary, a Python literal such as
/// `{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }` followed by white space. Throws
/// `invalid_argument`, naming the file `name`, unless it has exactly these three keys once, an
/// element type of f32, f64, c64 or c128, and at most 64 dimensions of which none is negative. The
/// error for another element type says that `types` are needed.
[[nodiscard]] npy_header parse_npy_header(std::string_view dictionary, std::string_view name,
                                          std::string_view types);

/// Everything that stands before the elements in a little-endian file of version 1.0 in C order: a
/// multiple of 64 bytes. Throws `invalid_argument` when the shape does not fit into such a header.
[[nodiscard]] std::string format_npy_header(element_type type, std::span<const std::int64_t> shape);

}  // namespace sluice::io
