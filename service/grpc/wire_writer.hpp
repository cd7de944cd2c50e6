// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

/// Writers of the fields of protobuf messages. Each appends to the bytes of a message. As in
/// proto3, a field with the default value is left out.
namespace sluice::service {

/// A number without a tag.
void append_varint(std::string& message, std::uint64_t value);
/// The tag and the length of a field whose bytes follow, also if there are none.
void append_bytes_head(std::string& message, std::uint32_t field, std::uint64_t length);

/// A text, a message or a packed array, also if it is empty.
void append_bytes(std::string& message, std::uint32_t field, std::string_view bytes);
void append_text(std::string& message, std::uint32_t field, std::string_view text);
/// A value of an integer type, of an enumeration or of `bool`.
void append_number(std::string& message, std::uint32_t field, std::uint64_t value);

}  // namespace sluice::service
