// SPDX-License-Identifier: Apache-2.0
// The part of http_connection that answers requests about the repository and shared memory.
#include "service/front/http_connection.hpp"
#include "service/front/http_error.hpp"
#include "service/protocol/region_json.hpp"
#include "service/protocol/repository_json.hpp"

#include <array>
#include <cstddef>
#include <optional>
#include <utility>

namespace sluice::service {
namespace {

constexpr std::size_t most_text_bytes = std::size_t{64} << 10;

[[noreturn]] void refuse_text() {
  throw http_error(413, "the body of such a request may have 64 KiB");
}

}  // namespace

void http_connection::begin_text() {
  text_.clear();
  if (body_.plain_bytes().value_or(0) > most_text_bytes) refuse_text();
}

bool http_connection::read_text() {
  while (!body_.is_done()) {
    std::array<std::byte, 4096> piece;
    const auto [consumed, written] = body_.decode(buffer_.bytes(), piece);
    buffer_.consume(consumed);
    text_.append(reinterpret_cast<const char*>(piece.data()), written);
    if (text_.size() > most_text_bytes) refuse_text();
    if (consumed == 0 && written == 0) return false;
  }
  if (has_hung_up_) {
    close();
  } else if (route_.target == endpoint::region_register ||
             route_.target == endpoint::region_unregister) {
    reply_with(change_regions());
  } else {
    answer_repository_request();
  }
  return true;
}

void http_connection::answer_repository_request() {
  if (route_.target == endpoint::repository_index) {
    const auto request = parse_index_request(text_);
    return reply_with({.text = repository_index_json(context_.backend.index(), request)});
  }
  const bool is_load = route_.target == endpoint::model_load;
  is_load ? check_load_request(text_) : check_unload_request(text_);
  auto pending = begin_run();
  auto done = [pending](std::optional<request_error> failure) {
    pending->deliver({.error = std::move(failure)});
  };
  try {
    if (is_load) {
      context_.backend.load(route_.model, std::move(done));
    } else {
      context_.backend.unload(route_.model, std::move(done));
    }
  } catch (...) {
    pending->forget();
    throw;
  }
  run_ = std::move(pending);
}

http_reply http_connection::make_region_status() const {
  return {.text = region_status_json(context_.options.regions->list(tenant_, route_.region))};
}

http_reply http_connection::change_regions() const {
  auto& regions = *context_.options.regions;
  if (route_.target == endpoint::region_register) {
    auto region = parse_region_request(text_);
    region.name = route_.region;
    regions.add(tenant_, std::move(region));
  } else {
    regions.remove(tenant_, route_.region);
  }
  return {.text = "{}"};
}

}  // namespace sluice::service
