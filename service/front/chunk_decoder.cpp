// SPDX-License-Identifier: Apache-2.0
#include "service/front/chunk_decoder.hpp"

#include "service/front/http_error.hpp"

#include <optional>

namespace sluice::service {
namespace {

constexpr unsigned most_digits = 15;  // of a size, so that it fits 64 bits
// A chunk of one byte needs six bytes of framing and is legitimate. Much longer framing only makes
// the server read without progress.
constexpr std::uint64_t free_framing = 8;
constexpr std::uint64_t most_excess = 8192;

[[noreturn]] void refuse() {
  throw http_error(400, "the chunks of the body are malformed");
}

[[nodiscard]] std::optional<unsigned> hex_digit(unsigned char c) noexcept {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return std::nullopt;
}

[[nodiscard]] bool is_text(unsigned char c) noexcept {
  return c == '\t' || (c >= ' ' && c != 0x7f);
}

}  // namespace

std::size_t chunk_decoder::skip_framing(std::span<const std::byte> input) {
  std::size_t skipped = 0;
  while (true) {
    if (state_ == state::data && available_ == 0) state_ = state::data_end;
    if (state_ == state::data || state_ == state::done || skipped == input.size()) return skipped;
    step(std::to_integer<unsigned char>(input[skipped]));
    ++skipped;
  }
}

void chunk_decoder::step(unsigned char c) {
  const auto expect = [c](unsigned char expected) {
    if (c != expected) refuse();
  };
  count_framing();
  switch (state_) {
    case state::size:
      if (const auto digit = hex_digit(c)) {
        if (++digits_ > most_digits) refuse();
        size_ = size_ * 16 + *digit;
      } else if (digits_ == 0) {
        refuse();
      } else if (c == ';') {
        state_ = state::extension;
      } else {
        expect('\r');
        state_ = state::size_end;
      }
      break;
    case state::extension:
      if (c == '\r') {
        state_ = state::size_end;
      } else if (!is_text(c)) {
        refuse();
      }
      break;
    case state::size_end:
      expect('\n');
      state_ = size_ == 0 ? state::trailer_start : state::data;
      available_ = size_;
      excess_ = excess_ > size_ + free_framing ? excess_ - size_ - free_framing : 0;
      size_ = 0;
      digits_ = 0;
      break;
    case state::data_end:
      expect('\r');
      state_ = state::data_line_end;
      break;
    case state::data_line_end:
      expect('\n');
      state_ = state::size;
      break;
    case state::trailer_start:
      if (c == '\r') {
        state_ = state::last_end;
      } else if (c == ' ' || c == '\t' || !is_text(c)) {
        refuse();
      } else {
        state_ = state::trailer;
      }
      break;
    case state::trailer:
      if (c == '\r') {
        state_ = state::trailer_end;
      } else if (!is_text(c)) {
        refuse();
      }
      break;
    case state::trailer_end:
      expect('\n');
      state_ = state::trailer_start;
      break;
    case state::last_end:
      expect('\n');
      state_ = state::done;
      break;
    case state::data:
    case state::done:
      break;
  }
}

void chunk_decoder::count_framing() {
  if (++excess_ > most_excess) refuse();
}

}  // namespace sluice::service
