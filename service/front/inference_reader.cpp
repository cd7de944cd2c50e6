// SPDX-License-Identifier: Apache-2.0
#include "service/front/inference_reader.hpp"

#include "service/protocol/inference_json.hpp"
#include "service/protocol/json_elements.hpp"

#include <algorithm>
#include <numeric>

namespace sluice::service {
namespace {

constexpr std::size_t first_text_bytes = std::size_t{16} << 10;

}  // namespace

void inference_reader::begin(const request_body& body, std::optional<std::uint64_t> json_bytes,
                             std::uint64_t body_limit, std::string_view tenant) {
  reset();
  tenant_ = tenant;
  const auto plain = body.plain_bytes();
  is_json_known_ = json_bytes.has_value() || plain.has_value();
  json_bytes_ = json_bytes ? *json_bytes : plain.value_or(body_limit + 1);
  if (json_bytes && *json_bytes > plain.value_or(body_limit)) {
    throw request_error(request_status::invalid_argument,
                        "Inference-Header-Content-Length is larger than the body");
  }
  binary_bytes_.reset();
  if (plain) {
    binary_bytes_ = *plain - json_bytes_;
  } else if (!json_bytes) {
    binary_bytes_ = 0;
  }
}

inference_reader::need inference_reader::read(read_buffer& input, request_body& body) {
  while (true) {
    switch (stage_) {
      case stage::json:
        if (!read_text(input, body)) return need::bytes;
        break;
      case stage::parsing:
      case stage::regions:
        return need::work;
      case stage::tensors:
        if (!fill(input, body)) return need::bytes;
        if (!target_.empty()) {
          throw request_error(request_status::invalid_argument,
                              "the body ends before its binary tensors");
        }
        next_tensor();
        break;
      case stage::end:
        if (!body.is_done()) {
          target_ = {&after_end_, 1};
          const bool is_over = fill(input, body);
          if (target_.empty()) {
            throw request_error(request_status::invalid_argument,
                                "the body goes on after its binary tensors");
          }
          if (!is_over) return need::bytes;
        }
        if (regions_.input_bytes() > 0) {
          stage_ = stage::regions;
        } else {
          read_regions();
        }
        break;
      case stage::complete:
        return need::nothing;
    }
  }
}

std::span<std::byte> inference_reader::direct_target(const request_body& body) const noexcept {
  const auto plain = body.plain_bytes();
  if (!plain || (stage_ != stage::json && stage_ != stage::tensors)) return {};
  return target_.first(static_cast<std::size_t>(std::min<std::uint64_t>(target_.size(), *plain)));
}

void inference_reader::take_direct(std::size_t bytes, request_body& body) noexcept {
  body.take_plain(bytes);
  target_ = target_.subspan(bytes);
}

void inference_reader::work() {
  if (stage_ == stage::regions) return read_regions();
  prepare(json_);
  text_charge_.release();
  json_ = {};
}

void inference_reader::reset() noexcept {
  stage_ = stage::json;
  text_charge_.release();
  json_ = {};
  target_ = {};
  inputs_.reset();
  charge_.reset();
  regions_ = {};
  tensor_ = 0;
}

/// Whether the target is full or the body has ended.
bool inference_reader::fill(read_buffer& input, request_body& body) {
  const auto step = body.decode(input.bytes(), target_);
  input.consume(step.consumed);
  target_ = target_.subspan(step.written);
  return target_.empty() || body.is_done();
}

/// Whether the text is there. Parses it unless it is long.
bool inference_reader::read_text(read_buffer& input, request_body& body) {
  // Most requests are short and lie in the input: they need no copy.
  if (json_.empty() && is_json_known_ && body.plain_bytes() && input.size() >= json_bytes_ &&
      json_bytes_ <= most_json_between_reads) {
    const auto text = input.text().substr(0, static_cast<std::size_t>(json_bytes_));
    prepare(text);
    input.consume(text.size());
    body.take_plain(text.size());
    return true;
  }
  while (true) {
    if (target_.empty() && json_.size() < json_bytes_) grow_text();
    if (!fill(input, body)) return false;
    if (body.is_done() || (target_.empty() && json_.size() == json_bytes_)) break;
  }
  const std::size_t length = json_.size() - target_.size();
  if (is_json_known_ && length < json_bytes_) {
    throw request_error(request_status::invalid_argument, "the body ends before its JSON text");
  }
  json_.resize(length);
  target_ = {};
  if (length > most_json_between_reads) {
    stage_ = stage::parsing;
  } else {
    work();
  }
  return true;
}

/// Doubles the text, so that clients pay for memory with bytes that they have sent.
void inference_reader::grow_text() {
  const std::size_t length = json_.size();
  const auto grown = static_cast<std::size_t>(std::min<std::uint64_t>(
      json_bytes_, std::max<std::uint64_t>(first_text_bytes, std::uint64_t{length} * 2)));
  if (!text_charge_.try_grow_to(grown)) {
    throw request_error(request_status::resource_exhausted,
                        "the server is reading too much JSON text");
  }
  json_.resize(grown);
  target_ = std::as_writable_bytes(std::span(json_)).subspan(length);
}

/// Parses the text, gets memory for the inputs and reads those whose elements stand in the text.
void inference_reader::prepare(std::string_view text) {
  request_ = parse_inference_request(text, binary_bytes_);
  // Before the memory: a region that is not there costs none.
  regions_ = tensor_regions(request_, known_regions_, tenant_);
  std::vector<std::uint64_t> sizes(request_.inputs.size());
  std::transform(request_.inputs.begin(), request_.inputs.end(), sizes.begin(),
                 [](const request_input& input) { return input.bytes; });
  charge_ = tenants_.charge(tenant_, std::accumulate(sizes.begin(), sizes.end(), std::uint64_t{0}));
  inputs_ = backend_.allocate(sizes);
  if (std::any_of(request_.inputs.begin(), request_.inputs.end(),
                  [](const request_input& input) { return input.is_in_text(); })) {
    std::vector<std::span<std::byte>> tensors(sizes.size());
    for (std::size_t i = 0; i < tensors.size(); ++i) tensors[i] = inputs_->tensor(i);
    read_json_elements(text, request_, tensors);
  }
  tensor_ = 0;
  next_tensor();
}

void inference_reader::next_tensor() {
  while (tensor_ < request_.inputs.size() && !request_.inputs[tensor_].is_binary) ++tensor_;
  if (tensor_ == request_.inputs.size()) {
    stage_ = stage::end;
    target_ = {};
    return;
  }
  stage_ = stage::tensors;
  target_ = inputs_->tensor(tensor_++);
}

void inference_reader::read_regions() {
  regions_.read_inputs(*inputs_);
  stage_ = stage::complete;
}

}  // namespace sluice::service
