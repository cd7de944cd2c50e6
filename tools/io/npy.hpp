// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/runtime/element_type.hpp>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace sluice::io {

/// An array in host memory. `bytes` holds the elements in C order (the last axis is contiguous) and
/// in the machine's byte order. A shape without axes is one element. An axis of length 0 makes the
/// array empty.
struct array {
  element_type type = element_type::f32;
  std::vector<std::int64_t> shape;
  std::vector<std::byte> bytes;

  /// The number of elements that `bytes` holds.
  [[nodiscard]] std::size_t size() const noexcept { return bytes.size() / size_of(type); }

  /// The elements as `T`, valid until `bytes` is resized. @throws error `invalid_argument` if
  /// `type` is not the element type of `T`
  template <element T>
  [[nodiscard]] std::span<const T> values() const {
    require_type(element_type_v<T>);
    return {reinterpret_cast<const T*>(bytes.data()), size()};
  }
  template <element T>
  [[nodiscard]] std::span<T> values() {
    require_type(element_type_v<T>);
    return {reinterpret_cast<T*>(bytes.data()), size()};
  }

 private:
  void require_type(element_type wanted) const;
};

/// The size in bytes of an array of `shape`. Empty if a dimension is negative or if the size does
/// not fit into 63 bits. A dimension of 0 makes the size 0, but the product of the others must
/// still fit.
[[nodiscard]] std::optional<std::size_t> byte_size(element_type type,
                                                   std::span<const std::int64_t> shape) noexcept;

/// Reads a NumPy file of version 1.0, 2.0 or 3.0 with elements of type f32, f64, c64 or c128, in C
/// or Fortran order and in either byte order. The result is in C order and native byte order. For
/// any header it allocates at most a small multiple of the true size of the file. Format:
/// https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
/// @param types the element types that the caller accepts, for the error about another type
/// @throws error `invalid_argument`, in one line that names the file: the file is missing, not
/// readable, malformed, truncated, longer than its header says, or of another element type;
/// `library_failure`: the read fails
[[nodiscard]] array read_npy(const std::filesystem::path& path,
                             std::string_view types = "f32, f64, c64 or c128");

/// As `read_npy`, for the bytes of a file. Errors call it `name`.
[[nodiscard]] array parse_npy(std::span<const std::byte> file, std::string_view name);

/// Writes a file of version 1.0, little-endian and in C order, of any element type, as an
/// `output_file`. `elements` holds the elements in C order and native byte order.
/// @throws error `invalid_argument` if the size of `elements` does not match `type` and `shape`; as
/// `output_file`
/// @throws error `unsupported` for e4m3, e5m2 and bf16, which NumPy does not have
void write_npy(const std::filesystem::path& path, element_type type,
               std::span<const std::int64_t> shape, std::span<const std::byte> elements);
void write_npy(const std::filesystem::path& path, const array& contents);

}  // namespace sluice::io
