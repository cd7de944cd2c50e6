// SPDX-License-Identifier: Apache-2.0
#include "tools/io/npy.hpp"

#include "tools/io/byte_source.hpp"
#include "tools/io/npy_header.hpp"
#include "tools/io/output_file.hpp"

#include <sluice/runtime/error.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <string>
#include <utility>

namespace sluice::io {

namespace {

// NumPy writes a longer header only for structured types with very many fields.
constexpr std::uint32_t maximum_header_size = 65535;

std::uint32_t byte_at(std::span<const std::byte> bytes, std::size_t index) {
  return std::to_integer<std::uint32_t>(bytes[index]);
}

/// Reads everything up to the elements.
npy_header read_header(byte_source& source, std::span<const element_type> types) {
  std::array<std::byte, 8> prologue{};
  const std::size_t received = source.read(prologue);
  static constexpr std::array<unsigned char, 6> magic{0x93, 'N', 'U', 'M', 'P', 'Y'};
  if (received == 0) throw invalid_argument(source.name(), "is empty, not a .npy file");
  if (received < prologue.size() || std::memcmp(prologue.data(), magic.data(), magic.size()) != 0)
    throw invalid_argument(source.name(), "is not a .npy file");
  const std::uint32_t major = byte_at(prologue, 6);
  const std::uint32_t minor = byte_at(prologue, 7);
  if (major < 1 || major > 3 || minor != 0)
    throw invalid_argument(source.name(), ".npy version " + std::to_string(major) + "." +
                                              std::to_string(minor) +
                                              " is not supported; must be 1.0, 2.0 or 3.0");

  std::array<std::byte, 4> length_bytes{};
  const auto length_field = std::span(length_bytes).first(major == 1 ? 2 : 4);
  if (source.read(length_field) < length_field.size())
    throw invalid_argument(source.name(), "is truncated within the .npy header");
  std::uint32_t length = 0;
  for (std::size_t i = 0; i < length_field.size(); ++i)
    length |= byte_at(length_field, i) << (8 * i);
  if (length > maximum_header_size)
    throw invalid_argument(
        source.name(), "the .npy header is " + std::to_string(length) + " bytes long; at most " +
                           std::to_string(maximum_header_size) + " are supported");
  const std::vector<std::byte> text = read_up_to(source, length);
  if (text.size() < length)
    throw invalid_argument(source.name(), "is truncated within the .npy header");
  return parse_npy_header({reinterpret_cast<const char*>(text.data()), text.size()}, source.name(),
                          types);
}

/// The size of one number in an element; a change of byte order reverses the bytes of each.
std::size_t scalar_size(element_type type) noexcept {
  const bool complex = type == element_type::c64 || type == element_type::c128;
  return complex ? size_of(type) / 2 : size_of(type);
}

void reverse_bytes(std::span<std::byte> elements, std::size_t width) {
  for (std::size_t first = 0; first < elements.size(); first += width)
    std::reverse(elements.begin() + static_cast<std::ptrdiff_t>(first),
                 elements.begin() + static_cast<std::ptrdiff_t>(first + width));
}

/// Copies elements from Fortran order (the first axis is contiguous) to C order.
template <std::size_t Size>
void from_fortran_order(std::span<const std::byte> from, std::span<std::byte> destination,
                        std::span<const std::int64_t> shape) {
  std::vector<std::size_t> strides(shape.size());
  std::size_t stride = 1;
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    strides[axis] = stride;
    stride *= static_cast<std::size_t>(shape[axis]);
  }
  std::vector<std::int64_t> index(shape.size(), 0);
  std::size_t source = 0;
  for (std::size_t target = 0; target < destination.size(); target += Size) {
    std::memcpy(destination.data() + target, from.data() + source * Size, Size);
    for (std::size_t axis = shape.size(); axis-- > 0;) {
      source += strides[axis];
      if (++index[axis] < shape[axis]) break;
      source -= strides[axis] * static_cast<std::size_t>(shape[axis]);
      index[axis] = 0;
    }
  }
}

void to_c_order(array& contents) {
  // With at most one axis longer than 1 both orders are the same.
  const auto long_axes =
      std::count_if(contents.shape.begin(), contents.shape.end(), [](auto n) { return n > 1; });
  if (contents.bytes.empty() || long_axes < 2) return;
  std::vector<std::byte> ordered(contents.bytes.size());
  switch (size_of(contents.type)) {
    case 1:
      from_fortran_order<1>(contents.bytes, ordered, contents.shape);
      break;
    case 2:
      from_fortran_order<2>(contents.bytes, ordered, contents.shape);
      break;
    case 4:
      from_fortran_order<4>(contents.bytes, ordered, contents.shape);
      break;
    case 8:
      from_fortran_order<8>(contents.bytes, ordered, contents.shape);
      break;
    default:
      from_fortran_order<16>(contents.bytes, ordered, contents.shape);
      break;
  }
  contents.bytes = std::move(ordered);
}

array read_array(byte_source& source, std::span<const element_type> types) {
  npy_header header = read_header(source, types);
  const std::optional<std::size_t> size = byte_size(header.type, header.shape);
  if (!size)
    throw invalid_argument(source.name(),
                           "the shape describes an array of more than 2^63 - 1 bytes");
  array contents{header.type, std::move(header.shape), read_up_to(source, *size)};
  if (contents.bytes.size() < *size)
    throw invalid_argument(source.name(), "is truncated: " + std::to_string(contents.bytes.size()) +
                                              " of " + std::to_string(*size) +
                                              " bytes of elements");
  std::array<std::byte, 1> surplus{};
  if (source.read(surplus) != 0)
    throw invalid_argument(source.name(), "has more than the " + std::to_string(*size) +
                                              " bytes of elements that its shape describes");
  if (contents.type == element_type::boolean &&
      std::any_of(contents.bytes.begin(), contents.bytes.end(),
                  [](std::byte b) { return b > std::byte{1}; })) {
    throw invalid_argument(source.name(), "has a boolean that is neither 0 nor 1");
  }
  if (header.byte_swapped) reverse_bytes(contents.bytes, scalar_size(contents.type));
  if (header.fortran_order) to_c_order(contents);
  return contents;
}

}  // namespace

void array::require_type(element_type wanted) const {
  if (type != wanted)
    throw error(errc::invalid_argument, "array: the elements are " + std::string(to_string(type)) +
                                            ", not " + std::string(to_string(wanted)));
}

std::optional<std::size_t> byte_size(element_type type,
                                     std::span<const std::int64_t> shape) noexcept {
  constexpr auto maximum = static_cast<std::size_t>(std::numeric_limits<std::int64_t>::max());
  std::size_t size = size_of(type);
  bool empty = false;
  for (const std::int64_t dimension : shape) {
    if (dimension < 0) return std::nullopt;
    if (dimension == 0) {
      empty = true;
      continue;
    }
    if (size > maximum / static_cast<std::size_t>(dimension)) return std::nullopt;
    size *= static_cast<std::size_t>(dimension);
  }
  return empty ? 0 : size;
}

array read_npy(const std::filesystem::path& path, std::span<const element_type> types) {
  file_source source(path);
  return read_array(source, types);
}

array parse_npy(std::span<const std::byte> file, std::string_view name) {
  span_source source(file, std::string(name));
  return read_array(source, npy_types);
}

void write_npy(const std::filesystem::path& path, element_type type,
               std::span<const std::int64_t> shape, std::span<const std::byte> elements) {
  if (byte_size(type, shape) != elements.size())
    throw error(errc::invalid_argument,
                "elements: " + std::to_string(elements.size()) + " bytes do not match the shape");
  const std::string header = format_npy_header(type, shape);
  output_file file(path);
  file.write(std::as_bytes(std::span(header)));
  if constexpr (std::endian::native == std::endian::little) {
    file.write(elements);
  } else {
    std::vector<std::byte> swapped(elements.begin(), elements.end());
    reverse_bytes(swapped, scalar_size(type));
    file.write(swapped);
  }
  file.commit();
}

void write_npy(const std::filesystem::path& path, const array& contents) {
  write_npy(path, contents.type, contents.shape, contents.bytes);
}

}  // namespace sluice::io
