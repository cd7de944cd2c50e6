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

/// An array in host memory: `bytes` holds the elements in C order (the last axis contiguous) and in
/// the machine's byte order. A shape with no axis is one element; an axis of length 0 makes the
/// array empty.
struct array {
  element_type type = element_type::f32;
  std::vector<std::int64_t> shape;
  std::vector<std::byte> bytes;

  /// The number of elements that `bytes` holds.
  [[nodiscard]] std::size_t size() const noexcept { return bytes.size() / size_of(type); }

  /// The elements as `T`, valid as long as `bytes` is not resized. Throws `invalid_argument` when
  /// `type` is not that of `T`.
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

/// The size in bytes of an array of `shape`; empty when a dimension is negative or when the size
/// does not fit into 63 bits. An array that is empty because of one dimension must still be
/// representable in the others.
[[nodiscard]] std::optional<std::size_t> byte_size(element_type type,
                                                   std::span<const std::int64_t> shape) noexcept;

/// Reads a NumPy file of version 1.0, 2.0 or 3.0 with elements of type f32, f64, c64 or c128 in C
/// or Fortran order and in either byte order; the result is in C order and native byte order.
/// Throws `invalid_argument`, in one line that names the file, when the file is missing, not
/// readable, malformed, truncated, longer than its header says, or of any other element type;
/// `library_failure` when the system fails while reading. Never allocates more than a small
/// multiple of the file's true size, whatever its header says.
///
/// Format: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
///
/// The error for another element type says that `types` are needed: those that the caller takes.
[[nodiscard]] array read_npy(const std::filesystem::path& path,
                             std::string_view types = "f32, f64, c64 or c128");

/// As `read_npy`, over the bytes of a file; errors call it `name`.
[[nodiscard]] array parse_npy(std::span<const std::byte> file, std::string_view name);

/// Writes a version 1.0 file, little-endian and in C order; any element type. `elements` holds the
/// elements in C order and native byte order. The file appears under `path` only when it is
/// complete (see `output_file`). Throws `invalid_argument` when `elements` does not have the size
/// that `type` and `shape` say, and whatever `output_file` throws.
void write_npy(const std::filesystem::path& path, element_type type,
               std::span<const std::int64_t> shape, std::span<const std::byte> elements);
void write_npy(const std::filesystem::path& path, const array& contents);

}  // namespace sluice::io
