// SPDX-License-Identifier: Apache-2.0
#include "service/front/request_body.hpp"

#include "service/front/http_error.hpp"

#include <algorithm>
#include <cstring>
#include <string>

namespace sluice::service {

request_body::request_body(const request_head& head, std::uint64_t limit)
    : left_(head.content_length), limit_(limit) {
  if (head.is_chunked) chunks_.emplace();
  if (head.coding != content_coding::identity && head.has_body()) inflater_.emplace(head.coding);
}

request_body::progress request_body::decode(std::span<const std::byte> input,
                                            std::span<std::byte> output) {
  progress total{};
  while (!is_done()) {
    if (chunks_) total.consumed += chunks_->skip_framing(input.subspan(total.consumed));
    auto data = input.subspan(total.consumed);
    const std::uint64_t available = chunks_ ? chunks_->available() : left_;
    data = data.first(static_cast<std::size_t>(std::min<std::uint64_t>(data.size(), available)));
    const progress step = decode_data(data, output.subspan(total.written));
    total.consumed += step.consumed;
    total.written += step.written;
    if (chunks_) {
      chunks_->take(step.consumed);
      count(sent_, step.consumed);
    } else {
      left_ -= step.consumed;
    }
    count(decoded_, step.written);
    if (step.consumed == 0 && step.written == 0) break;
  }
  return total;
}

request_body::progress request_body::decode_data(std::span<const std::byte> input,
                                                 std::span<std::byte> output) {
  if (!inflater_) {
    const std::size_t bytes = std::min(input.size(), output.size());
    if (bytes > 0) std::memcpy(output.data(), input.data(), bytes);
    return {.consumed = bytes, .written = bytes};
  }
  if (inflater_->is_done() && !input.empty()) {
    throw http_error(400, "the body has bytes after its compressed stream");
  }
  const auto [consumed, written] = inflater_->decode(input, output);
  const bool is_stuck = consumed == 0 && written == 0 && !inflater_->is_done();
  if (is_stuck && !output.empty() && is_framing_done()) {
    throw http_error(400, "the compressed body ends too early");
  }
  return {.consumed = consumed, .written = written};
}

bool request_body::is_done() const noexcept {
  return is_framing_done() && (!inflater_ || inflater_->is_done());
}

bool request_body::is_framing_done() const noexcept {
  return chunks_ ? chunks_->is_done() : left_ == 0;
}

std::optional<std::uint64_t> request_body::plain_bytes() const noexcept {
  if (chunks_ || inflater_) return std::nullopt;
  return left_;
}

void request_body::count(std::uint64_t& total, std::uint64_t bytes) const {
  total += bytes;
  if (total > limit_) {
    throw http_error(413, "the body has more than " + std::to_string(limit_) + " bytes");
  }
}

}  // namespace sluice::service
