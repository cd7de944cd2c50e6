// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace sluice::service {

/// How a field of a protobuf message is encoded.
enum class wire_type : std::uint8_t {
  varint = 0,
  fixed64 = 1,
  bytes = 2,  ///< a length and that many bytes: a text, a message or a packed array
  group_begin = 3,
  group_end = 4,
  fixed32 = 5,
};

/// Reads a protobuf message whose bytes lie in several pieces, field by field, without a copy.
///
///     while (reader.next()) {
///       if (reader.is(1, wire_type::varint)) {
///         number = reader.varint();
///       } else {
///         reader.skip();
///       }
///     }
///
/// Each turn takes the value of the field. The pieces and the array that names them must outlive
/// the reader. A copy of a reader is a place in the message to which one can return. All functions
/// that read throw `request_error` `invalid_argument` if the bytes are no message; they read no
/// byte beyond the end.
class wire_reader {
 public:
  wire_reader() = default;
  explicit wire_reader(std::span<const std::byte> bytes) noexcept
      : bytes_(bytes), rest_(bytes.size()) {}
  explicit wire_reader(std::span<const std::span<const std::byte>> pieces) noexcept;

  /// Reads the tag of the next field. Returns false at the end of the message.
  [[nodiscard]] bool next();
  [[nodiscard]] std::uint32_t field() const noexcept { return field_; }
  [[nodiscard]] wire_type type() const noexcept { return type_; }
  [[nodiscard]] bool is(std::uint32_t field, wire_type type) const noexcept {
    return field_ == field && type_ == type;
  }
  /// Skips the value of the field. Groups may be nested up to a depth of 32.
  void skip();

  /// The bytes that are left.
  [[nodiscard]] std::uint64_t size() const noexcept { return rest_; }
  [[nodiscard]] std::uint64_t varint();
  [[nodiscard]] std::uint32_t fixed32();
  [[nodiscard]] std::uint64_t fixed64();
  /// A value of the type `bytes`.
  [[nodiscard]] wire_reader bytes();
  /// A value of the type `bytes` that is UTF-8 and no longer than 64 KiB.
  [[nodiscard]] std::string text();
  /// The next bytes.
  void copy(std::span<std::byte> target);

 private:
  /// Takes the first bytes, which must be there.
  void advance(std::uint64_t count) noexcept;
  [[nodiscard]] std::uint64_t long_varint();
  void next_piece() noexcept;
  void skip_value(wire_type type);
  void skip_group();

  std::span<const std::byte> bytes_{};  ///< of the current piece; not empty unless nothing is left
  std::span<const std::span<const std::byte>> following_{};
  std::uint64_t rest_ = 0;  ///< bytes up to the end of the message, in all pieces
  std::uint32_t field_ = 0;
  wire_type type_ = wire_type::varint;
};

}  // namespace sluice::service
