// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/runtime/element_type.hpp>

#include <array>
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

/// The element types that NumPy has.
inline constexpr std::array npy_types{element_type::boolean, element_type::u8,  element_type::i8,
                                      element_type::u16,     element_type::i16, element_type::i32,
                                      element_type::u32,     element_type::i64, element_type::u64,
                                      element_type::f16,     element_type::f32, element_type::f64,
                                      element_type::c64,     element_type::c128};

/// Reads a NumPy file of version 1.0, 2.0 or 3.0 with elements of one of the types `types`, in C or
/// Fortran order and in either byte order. The result is in C order and native byte order. For any
/// header it allocates at most a small multiple of the true size of the file. Format:
/// https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
/// @throws error `invalid_argument`, in one line that names the file: the file is missing, not
/// readable, malformed, truncated, longer than its header says, of another element type, or has a
/// boolean that is neither 0 nor 1; `library_failure`: the read fails
[[nodiscard]] array read_npy(const std::filesystem::path& path,
                             std::span<const element_type> types = npy_types);

/// As `read_npy`, for the bytes of a file with elements of any type. Errors call it `name`.
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
