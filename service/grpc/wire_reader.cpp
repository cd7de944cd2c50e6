// SPDX-License-Identifier: Apache-2.0
#include "service/grpc/wire_reader.hpp"

#include "service/arena/utf8_text.hpp"
#include "service/protocol/request_error.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>

namespace sluice::service {
namespace {

static_assert(std::endian::native == std::endian::little, "fixed-size values are little-endian");

constexpr std::size_t most_varint_bytes = 10;
constexpr std::size_t most_group_depth = 32;
constexpr std::size_t most_text_bytes = std::size_t{64} << 10;

[[noreturn]] void refuse_message(const char* reason) {
  throw request_error(request_status::invalid_argument,
                      std::string("the message is malformed: ") + reason);
}

struct wire_tag {
  std::uint32_t field;
  wire_type type;
};

[[nodiscard]] wire_tag tag_of(std::uint64_t number) {
  const auto type = number & 7U;
  const auto field = number >> 3U;
  if (field == 0 || number > std::numeric_limits<std::uint32_t>::max() || type > 5) {
    refuse_message("a field has no valid tag");
  }
  return {.field = static_cast<std::uint32_t>(field), .type = static_cast<wire_type>(type)};
}

}  // namespace

wire_reader::wire_reader(std::span<const std::span<const std::byte>> pieces) noexcept
    : following_(pieces) {
  for (const auto& piece : pieces) rest_ += piece.size();
  next_piece();
}

bool wire_reader::next() {
  if (rest_ == 0) return false;
  const auto tag = tag_of(varint());
  if (tag.type == wire_type::group_end) refuse_message("a group ends that has not begun");
  field_ = tag.field;
  type_ = tag.type;
  return true;
}

void wire_reader::skip() {
  if (type_ == wire_type::group_begin) {
    skip_group();
  } else {
    skip_value(type_);
  }
}

void wire_reader::skip_value(wire_type type) {
  switch (type) {
    case wire_type::varint:
      (void)varint();
      return;
    case wire_type::fixed32:
      (void)fixed32();
      return;
    case wire_type::fixed64:
      (void)fixed64();
      return;
    default:
      (void)bytes();
      return;
  }
}

void wire_reader::skip_group() {
  std::array<std::uint32_t, most_group_depth> open{field_};
  std::size_t depth = 1;
  while (depth > 0) {
    if (rest_ == 0) refuse_message("a group does not end");
    const auto tag = tag_of(varint());
    if (tag.type == wire_type::group_end) {
      if (open[--depth] != tag.field) refuse_message("a group ends that has not begun");
    } else if (tag.type == wire_type::group_begin) {
      if (depth == open.size()) refuse_message("groups are nested too deeply");
      open[depth++] = tag.field;
    } else {
      skip_value(tag.type);
    }
  }
}

std::uint64_t wire_reader::varint() {
  // Most are tags and lengths of one byte.
  if (rest_ > 0 && std::to_integer<unsigned>(bytes_.front()) < 0x80) {
    const auto value = std::to_integer<std::uint64_t>(bytes_.front());
    advance(1);
    return value;
  }
  return long_varint();
}

std::uint64_t wire_reader::long_varint() {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < most_varint_bytes; ++i) {
    if (rest_ == 0) refuse_message("it ends within a number");
    const auto byte = std::to_integer<std::uint64_t>(bytes_.front());
    advance(1);
    if (i == most_varint_bytes - 1 && byte > 1) break;
    value |= (byte & 0x7fU) << (7 * i);
    if (byte < 0x80) return value;
  }
  refuse_message("a number has more than 64 bits");
}

std::uint32_t wire_reader::fixed32() {
  std::uint32_t value = 0;
  copy(std::as_writable_bytes(std::span(&value, 1)));
  return value;
}

std::uint64_t wire_reader::fixed64() {
  std::uint64_t value = 0;
  copy(std::as_writable_bytes(std::span(&value, 1)));
  return value;
}

wire_reader wire_reader::bytes() {
  const std::uint64_t length = varint();
  if (length > rest_) refuse_message("a length reaches beyond the end");
  wire_reader value = *this;
  value.rest_ = length;
  advance(length);
  return value;
}

std::string wire_reader::text() {
  wire_reader value = bytes();
  if (value.size() > most_text_bytes) refuse_message("a text is longer than 64 KiB");
  std::string text(static_cast<std::size_t>(value.size()), '\0');
  value.copy(std::as_writable_bytes(std::span(text)));
  if (!is_utf8(text)) refuse_message("a text is not UTF-8");
  return text;
}

void wire_reader::copy(std::span<std::byte> target) {
  if (target.size() > rest_) refuse_message("it ends within a value");
  while (!target.empty()) {
    const std::size_t count = std::min(target.size(), bytes_.size());
    std::memcpy(target.data(), bytes_.data(), count);
    target = target.subspan(count);
    advance(count);
  }
}

void wire_reader::advance(std::uint64_t count) noexcept {
  rest_ -= count;
  while (count >= bytes_.size()) {
    count -= bytes_.size();
    bytes_ = {};
    if (following_.empty()) return;
    next_piece();
  }
  bytes_ = bytes_.subspan(static_cast<std::size_t>(count));
}

void wire_reader::next_piece() noexcept {
  while (bytes_.empty() && !following_.empty()) {
    bytes_ = following_.front();
    following_ = following_.subspan(1);
  }
}

}  // namespace sluice::service
