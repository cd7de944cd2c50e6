// SPDX-License-Identifier: Apache-2.0
#include "service/protocol/json_elements.hpp"

#include "service/protocol/json_events.hpp"
#include "service/protocol/narrow_float.hpp"
#include "service/protocol/quoted_name.hpp"
#include "service/protocol/request_error.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace sluice::service {
namespace {

/// The text of a request has been parsed before, so only the elements are looked at.
class element_reader : public json_events<element_reader> {
 public:
  element_reader(const inference_request& request, std::span<const std::span<std::byte>> tensors)
      : request_(request), tensors_(tensors) {
    require(tensors_.size() == request_.inputs.size());
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      const auto& input = request_.inputs[i];
      require(!input.is_in_text() || tensors_[i].size() == input.bytes);
      if (input.is_in_text()) ++unread_inputs_;
    }
  }

  void finish() const { require(unread_inputs_ == 0); }

  void begin_object() {
    if (depth_ == 2 && is_inputs_) ++count_;
    ++depth_;
  }
  void end_of_object() { --depth_; }

  void member(std::string_view key) {
    if (depth_ == 1) is_inputs_ = key == "inputs";
    if (depth_ == 3) is_data_ = is_inputs_ && key == "data";
  }

  void begin_array() {
    ++depth_;
    if (data_depth_ > 0) {
      begin_nested();
    } else if (depth_ == 4 && is_data_) {
      begin_data();
    }
  }

  void end_of_array() {
    --depth_;
    if (data_depth_ == 0) return;
    const auto dimension = data_depth_ - 1;
    if (is_nested_ && lengths_[dimension] != extent(dimension)) refuse_shape();
    data_depth_ = dimension;
    if (data_depth_ == 0) end_of_data();
  }

  void scalar(const json_scalar& value) {
    if (data_depth_ == 0) return;
    if (data_depth_ != (is_nested_ ? input().shape.size() : 1)) refuse_shape();
    ++lengths_[data_depth_ - 1];
    if (left_.empty()) refuse_shape();
    write(value);
    left_ = left_.subspan(size_of(input().type));
  }

  [[nodiscard]] std::string subject() const {
    return data_depth_ > 0 ? "input " + quoted_name(input().name) : "request";
  }

 private:
  static void require(bool holds) {
    if (!holds) {
      throw request_error(request_status::internal,
                          "request: the text, the request and the memory do not fit each other");
    }
  }

  [[noreturn]] void refuse(const std::string& reason) const {
    throw request_error(request_status::invalid_argument, subject() + ": " + reason);
  }
  [[noreturn]] void refuse_shape() const {
    refuse("data is neither a flat array nor nested as the shape");
  }
  [[noreturn]] void refuse_element(const std::string& reason) const {
    const auto offset = tensors_[count_ - 1].size() - left_.size();
    refuse("element " + std::to_string(offset / size_of(input().type)) + " is " + reason);
  }

  [[nodiscard]] const request_input& input() const noexcept { return request_.inputs[count_ - 1]; }
  [[nodiscard]] std::uint64_t extent(std::size_t dimension) const noexcept {
    return static_cast<std::uint64_t>(input().shape[dimension]);
  }

  void begin_data() {
    require(count_ > 0 && count_ <= tensors_.size() && input().is_in_text() && unread_inputs_ > 0);
    left_ = tensors_[count_ - 1];
    data_depth_ = 1;
    is_nested_ = false;
    lengths_ = {};
  }

  void begin_nested() {
    if (data_depth_ == 1 && lengths_[0] == 0 && input().shape.size() > 1) is_nested_ = true;
    if (!is_nested_ || data_depth_ == input().shape.size()) refuse_shape();
    ++lengths_[data_depth_ - 1];
    lengths_[data_depth_++] = 0;
  }

  void end_of_data() {
    require(left_.empty());
    --unread_inputs_;
  }

  template <std::integral Integer>
  [[nodiscard]] Integer integer_in(const json_scalar& value) const {
    if (const auto* number = std::get_if<std::uint64_t>(&value)) {
      if (std::in_range<Integer>(*number)) return static_cast<Integer>(*number);
    } else if (const auto* negative = std::get_if<std::int64_t>(&value)) {
      if (std::in_range<Integer>(*negative)) return static_cast<Integer>(*negative);
    } else {
      const auto* real = std::get_if<json_real>(&value);
      if (real == nullptr || real->token->find_first_of(".,eE") != std::string::npos) {
        refuse_element("not an integer");
      }
    }
    refuse_element("out of the range of " + std::string(to_string(input().type)));
  }

  [[nodiscard]] double double_in(const json_scalar& value) const {
    if (const auto* number = std::get_if<std::uint64_t>(&value)) {
      return static_cast<double>(*number);
    }
    if (const auto* negative = std::get_if<std::int64_t>(&value)) {
      return *negative == 0 ? -0.0 : static_cast<double>(*negative);
    }
    const auto* real = std::get_if<json_real>(&value);
    if (real == nullptr) refuse_element("not a number");
    return real->value;
  }

  /// The nearest value to the number in the text. Rounding the nearest double once more could miss
  /// it.
  [[nodiscard]] float float_in(const json_scalar& value) const {
    if (const auto* number = std::get_if<std::uint64_t>(&value)) return static_cast<float>(*number);
    if (const auto* negative = std::get_if<std::int64_t>(&value)) {
      return *negative == 0 ? -0.0F : static_cast<float>(*negative);
    }
    const auto* real = std::get_if<json_real>(&value);
    if (real == nullptr) refuse_element("not a number");
    const float nearest = std::strtof(real->token->c_str(), nullptr);
    if (!std::isfinite(nearest)) refuse_element("out of the range of FP32");
    return nearest;
  }

  [[nodiscard]] std::uint16_t fp16_in(const json_scalar& value) const {
    const auto bits = to_fp16(double_in(value));
    if (!std::isfinite(from_fp16(bits))) refuse_element("out of the range of FP16");
    return bits;
  }
  [[nodiscard]] std::uint16_t bf16_in(const json_scalar& value) const {
    const auto bits = to_bf16(double_in(value));
    if (!std::isfinite(from_bf16(bits))) refuse_element("out of the range of BF16");
    return bits;
  }

  [[nodiscard]] std::uint8_t boolean_in(const json_scalar& value) const {
    const auto* boolean = std::get_if<bool>(&value);
    if (boolean == nullptr) refuse_element("neither true nor false");
    return *boolean ? 1 : 0;
  }

  template <class T>
  void store(T element) noexcept {
    std::memcpy(left_.data(), &element, sizeof element);
  }

  void write(const json_scalar& value) {
    switch (input().type) {
      case datatype::boolean:
        return store(boolean_in(value));
      case datatype::uint8:
        return store(integer_in<std::uint8_t>(value));
      case datatype::uint16:
        return store(integer_in<std::uint16_t>(value));
      case datatype::uint32:
        return store(integer_in<std::uint32_t>(value));
      case datatype::uint64:
        return store(integer_in<std::uint64_t>(value));
      case datatype::int8:
        return store(integer_in<std::int8_t>(value));
      case datatype::int16:
        return store(integer_in<std::int16_t>(value));
      case datatype::int32:
        return store(integer_in<std::int32_t>(value));
      case datatype::int64:
        return store(integer_in<std::int64_t>(value));
      case datatype::fp16:
        return store(fp16_in(value));
      case datatype::fp32:
        return store(float_in(value));
      case datatype::fp64:
        return store(double_in(value));
      case datatype::bf16:
        return store(bf16_in(value));
    }
  }

  const inference_request& request_;
  std::span<const std::span<std::byte>> tensors_;
  std::size_t unread_inputs_ = 0;  ///< with elements in the text
  std::size_t depth_ = 0;          ///< of objects and arrays
  std::size_t count_ = 0;          ///< inputs that have begun
  bool is_inputs_ = false;         ///< whether the field of the request is `inputs`
  bool is_data_ = false;           ///< whether the field of the input is `data`
  std::size_t data_depth_ = 0;     ///< of arrays in `data`, with itself
  bool is_nested_ = false;
  std::array<std::uint64_t, 8> lengths_{};  ///< of the open arrays of `data`
  std::span<std::byte> left_{};             ///< the elements that are not written yet
};

template <class T>
void append_number(std::string& text, T value) {
  std::array<char, 32> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  text.append(digits.data(), end);
}

template <class T>
[[nodiscard]] bool append_element(std::string& text, T value) {
  append_number(text, value);
  return true;
}

/// Some readers would take a number without a fraction for an integer, and lose the sign of -0.
template <std::floating_point T>
[[nodiscard]] bool append_element(std::string& text, T value) {
  if (!std::isfinite(value)) return false;
  const auto begin = text.size();
  append_number(text, value);
  if (text.find_first_of(".e", begin) == std::string::npos) text += ".0";
  return true;
}

[[nodiscard]] bool append_element(std::string& text, bool value) {
  text += value ? "true" : "false";
  return true;
}

template <class T, class Value>
[[nodiscard]] bool append_array(std::string& text, std::span<const std::byte> bytes, Value value) {
  text += '[';
  for (std::size_t offset = 0; offset + sizeof(T) <= bytes.size(); offset += sizeof(T)) {
    if (offset > 0) text += ',';
    T element{};
    std::memcpy(&element, bytes.data() + offset, sizeof element);
    if (!append_element(text, value(element))) return false;
  }
  text += ']';
  return true;
}

template <class T>
[[nodiscard]] bool append_array(std::string& text, std::span<const std::byte> bytes) {
  return append_array<T>(text, bytes, [](T element) { return element; });
}

}  // namespace

void read_json_elements(std::string_view text, const inference_request& request,
                        std::span<const std::span<std::byte>> tensors) {
  element_reader reader(request, tensors);
  (void)nlohmann::json::sax_parse(text.data(), text.data() + text.size(), &reader);
  reader.finish();
}

bool append_json_elements(std::string& text, datatype type, std::span<const std::byte> bytes) {
  switch (type) {
    case datatype::boolean:
      return append_array<std::uint8_t>(text, bytes, [](std::uint8_t b) { return b != 0; });
    case datatype::uint8:
      return append_array<std::uint8_t>(text, bytes);
    case datatype::uint16:
      return append_array<std::uint16_t>(text, bytes);
    case datatype::uint32:
      return append_array<std::uint32_t>(text, bytes);
    case datatype::uint64:
      return append_array<std::uint64_t>(text, bytes);
    case datatype::int8:
      return append_array<std::int8_t>(text, bytes);
    case datatype::int16:
      return append_array<std::int16_t>(text, bytes);
    case datatype::int32:
      return append_array<std::int32_t>(text, bytes);
    case datatype::int64:
      return append_array<std::int64_t>(text, bytes);
    case datatype::fp16:
      return append_array<std::uint16_t>(text, bytes, from_fp16);
    case datatype::fp32:
      return append_array<float>(text, bytes);
    case datatype::fp64:
      return append_array<double>(text, bytes);
    case datatype::bf16:
      return append_array<std::uint16_t>(text, bytes, from_bf16);
  }
  return false;
}

}  // namespace sluice::service
