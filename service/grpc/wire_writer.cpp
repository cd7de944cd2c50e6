// SPDX-License-Identifier: Apache-2.0
#include "service/grpc/wire_writer.hpp"

#include "service/grpc/wire_reader.hpp"

namespace sluice::service {
namespace {

void append_tag(std::string& message, std::uint32_t field, wire_type type) {
  append_varint(message, std::uint64_t{field} << 3U | static_cast<std::uint64_t>(type));
}

}  // namespace

void append_varint(std::string& message, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7U) message += static_cast<char>(value | 0x80U);
  message += static_cast<char>(value);
}

void append_bytes_head(std::string& message, std::uint32_t field, std::uint64_t length) {
  append_tag(message, field, wire_type::bytes);
  append_varint(message, length);
}

void append_bytes(std::string& message, std::uint32_t field, std::string_view bytes) {
  append_bytes_head(message, field, bytes.size());
  message += bytes;
}

void append_text(std::string& message, std::uint32_t field, std::string_view text) {
  if (!text.empty()) append_bytes(message, field, text);
}

void append_number(std::string& message, std::uint32_t field, std::uint64_t value) {
  if (value == 0) return;
  append_tag(message, field, wire_type::varint);
  append_varint(message, value);
}

}  // namespace sluice::service
