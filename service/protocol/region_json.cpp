// SPDX-License-Identifier: Apache-2.0
#include "service/protocol/region_json.hpp"

#include "service/protocol/json_events.hpp"
#include "service/protocol/json_string.hpp"
#include "service/protocol/quoted_name.hpp"

#include <optional>

namespace sluice::service {
namespace {

class region_reader : public json_events<region_reader> {
 public:
  [[nodiscard]] region_description finish() {
    if (!key_) refuse("key is missing");
    if (!bytes_) refuse("byte_size is missing");
    return {.key = std::move(*key_), .offset = offset_.value_or(0), .bytes = *bytes_};
  }

  void begin_object() {
    if (is_open_) refuse(quoted_name(field_) + " must be a scalar");
    is_open_ = true;
  }
  void end_of_object() noexcept {}
  void begin_array() {
    refuse(is_open_ ? quoted_name(field_) + " must be a scalar" : "must be an object");
  }
  void end_of_array() noexcept {}
  void member(std::string_view name) { field_ = name; }

  void scalar(const json_scalar& value) {
    if (!is_open_) refuse("must be an object");
    if (field_ == "key") {
      const auto* text = std::get_if<std::string_view>(&value);
      if (text == nullptr) refuse("key must be a string");
      set(key_, std::string(*text));
    } else if (field_ == "offset") {
      set(offset_, number_in(value));
    } else if (field_ == "byte_size") {
      set(bytes_, number_in(value));
    } else {
      refuse("there is no field " + quoted_name(field_));
    }
  }

  [[nodiscard]] static std::string subject() { return "request"; }

 private:
  [[noreturn]] static void refuse(const std::string& reason) {
    throw request_error(request_status::invalid_argument, "request: " + reason);
  }
  template <class T>
  void set(std::optional<T>& field, T value) const {
    if (field) refuse(field_ + " occurs twice");
    field = std::move(value);
  }
  [[nodiscard]] std::uint64_t number_in(const json_scalar& value) const {
    const auto* number = std::get_if<std::uint64_t>(&value);
    if (number == nullptr) refuse(field_ + " must be an integer from 0 to 2^64 - 1");
    return *number;
  }

  bool is_open_ = false;
  std::string field_{};
  std::optional<std::string> key_{};
  std::optional<std::uint64_t> offset_{};
  std::optional<std::uint64_t> bytes_{};
};

}  // namespace

region_description parse_region_request(std::string_view text) {
  // The parser would take a NUL for the end of the text.
  if (const auto position = text.find('\0'); position != std::string_view::npos) {
    throw request_error(request_status::invalid_argument,
                        "request: malformed JSON at byte " + std::to_string(position + 1));
  }
  region_reader reader;
  (void)nlohmann::json::sax_parse(text.data(), text.data() + text.size(), &reader);
  return reader.finish();
}

std::string region_status_json(std::span<const region_description> regions) {
  std::string text = "[";
  for (const auto& region : regions) {
    text += text.back() == '[' ? "{\"name\":" : ",{\"name\":";
    append_json_string(text, region.name);
    text += ",\"key\":";
    append_json_string(text, region.key);
    text += ",\"offset\":" + std::to_string(region.offset) +
            ",\"byte_size\":" + std::to_string(region.bytes) + '}';
  }
  return text += ']';
}

}  // namespace sluice::service
