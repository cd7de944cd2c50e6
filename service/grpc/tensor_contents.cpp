// SPDX-License-Identifier: Apache-2.0
#include "service/grpc/tensor_contents.hpp"

#include "service/grpc/wire_writer.hpp"
#include "service/protocol/request_error.hpp"

#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

namespace sluice::service {
namespace {

constexpr std::uint32_t last_contents_field = 8;  // bytes_contents

[[noreturn]] void refuse_contents(const std::string& reason) {
  throw request_error(request_status::invalid_argument, reason);
}

/// The field for elements of a type; 0 if there is none.
[[nodiscard]] std::uint32_t contents_field(datatype type) noexcept {
  switch (type) {
    case datatype::boolean:
      return 1;
    case datatype::int8:
    case datatype::int16:
    case datatype::int32:
      return 2;
    case datatype::int64:
      return 3;
    case datatype::uint8:
    case datatype::uint16:
    case datatype::uint32:
      return 4;
    case datatype::uint64:
      return 5;
    case datatype::fp32:
      return 6;
    case datatype::fp64:
      return 7;
    case datatype::fp16:
    case datatype::bf16:
      break;
  }
  return 0;
}

[[nodiscard]] wire_type element_wire_type(datatype type) noexcept {
  if (type == datatype::fp32) return wire_type::fixed32;
  if (type == datatype::fp64) return wire_type::fixed64;
  return wire_type::varint;
}

template <class T>
void store_integer(wire_reader& numbers, std::byte* target) {
  const std::uint64_t number = numbers.varint();
  T value{};
  if constexpr (std::is_signed_v<T>) {
    const auto integer = static_cast<std::int64_t>(number);
    if (integer < std::numeric_limits<T>::min() || integer > std::numeric_limits<T>::max()) {
      refuse_contents("the element " + std::to_string(integer) + " does not fit the datatype");
    }
    value = static_cast<T>(integer);
  } else {
    if (number > std::numeric_limits<T>::max()) {
      refuse_contents("the element " + std::to_string(number) + " does not fit the datatype");
    }
    value = static_cast<T>(number);
  }
  std::memcpy(target, &value, sizeof value);
}

void store_bool(wire_reader& numbers, std::byte* target) {
  *target = numbers.varint() == 0 ? std::byte{0} : std::byte{1};
}

template <std::size_t bytes>
void store_fixed(wire_reader& numbers, std::byte* target) {
  numbers.copy({target, bytes});
}

using store_element = void (*)(wire_reader& numbers, std::byte* target);

[[nodiscard]] store_element store_for(datatype type) noexcept {
  switch (type) {
    case datatype::boolean:
      return store_bool;
    case datatype::int8:
      return store_integer<std::int8_t>;
    case datatype::int16:
      return store_integer<std::int16_t>;
    case datatype::int32:
      return store_integer<std::int32_t>;
    case datatype::int64:
      return store_integer<std::int64_t>;
    case datatype::uint8:
      return store_integer<std::uint8_t>;
    case datatype::uint16:
      return store_integer<std::uint16_t>;
    case datatype::uint32:
      return store_integer<std::uint32_t>;
    case datatype::uint64:
      return store_integer<std::uint64_t>;
    case datatype::fp64:
      return store_fixed<8>;
    default:
      return store_fixed<4>;
  }
}

/// Reads elements into a tensor from its beginning.
class contents_reader {
 public:
  contents_reader(datatype type, std::span<std::byte> tensor) noexcept
      : type_(type), bytes_(size_of(type)), store_(store_for(type)), rest_(tensor) {}

  void read_packed(wire_reader numbers) {
    if (element_wire_type(type_) != wire_type::varint) {
      if (numbers.size() % bytes_ != 0) refuse_contents("an array ends within an element");
      if (numbers.size() > rest_.size()) refuse_count();
      const auto count = static_cast<std::size_t>(numbers.size());
      numbers.copy(rest_.first(count));
      rest_ = rest_.subspan(count);
      return;
    }
    while (numbers.size() > 0) read_element(numbers);
  }
  void read_element(wire_reader& numbers) {
    if (rest_.empty()) refuse_count();
    store_(numbers, rest_.data());
    rest_ = rest_.subspan(bytes_);
  }
  void finish() const {
    if (!rest_.empty()) refuse_count();
  }

 private:
  [[noreturn]] static void refuse_count() {
    refuse_contents("contents has not as many elements as the shape needs");
  }

  datatype type_;
  std::size_t bytes_;
  store_element store_;
  std::span<std::byte> rest_;
};

template <class T>
void append_elements(std::string& message, std::span<const std::byte> elements) {
  for (; !elements.empty(); elements = elements.subspan(sizeof(T))) {
    T value{};
    std::memcpy(&value, elements.data(), sizeof value);
    // Negative numbers have 64 bits on the wire.
    append_varint(message, static_cast<std::uint64_t>(static_cast<std::int64_t>(value)));
  }
}

[[nodiscard]] std::string packed_elements(datatype type, std::span<const std::byte> elements) {
  std::string packed;
  switch (type) {
    case datatype::boolean:
      for (const auto element : elements) packed += element == std::byte{0} ? '\0' : '\1';
      break;
    case datatype::int8:
      append_elements<std::int8_t>(packed, elements);
      break;
    case datatype::int16:
      append_elements<std::int16_t>(packed, elements);
      break;
    case datatype::int32:
      append_elements<std::int32_t>(packed, elements);
      break;
    case datatype::int64:
      append_elements<std::int64_t>(packed, elements);
      break;
    case datatype::uint8:
      append_elements<std::uint8_t>(packed, elements);
      break;
    case datatype::uint16:
      append_elements<std::uint16_t>(packed, elements);
      break;
    case datatype::uint32:
      append_elements<std::uint32_t>(packed, elements);
      break;
    case datatype::uint64:
      append_elements<std::uint64_t>(packed, elements);
      break;
    default:
      packed.assign(reinterpret_cast<const char*>(elements.data()), elements.size());
      break;
  }
  return packed;
}

}  // namespace

bool has_contents_field(datatype type) noexcept {
  return contents_field(type) != 0;
}

void read_contents(wire_reader contents, datatype type, std::span<std::byte> tensor) {
  const auto field = contents_field(type);
  if (field == 0 && (contents.size() > 0 || !tensor.empty())) {
    refuse_contents("elements of the type " + std::string(to_string(type)) +
                    " must stand in raw_input_contents");
  }
  contents_reader elements(type, tensor);
  while (contents.next()) {
    if (contents.is(field, wire_type::bytes)) {
      elements.read_packed(contents.bytes());
    } else if (contents.is(field, element_wire_type(type))) {
      elements.read_element(contents);
    } else if (contents.field() <= last_contents_field) {
      refuse_contents("contents has elements that are not of the type " +
                      std::string(to_string(type)));
    } else {
      contents.skip();
    }
  }
  elements.finish();
}

std::string contents_message(datatype type, std::span<const std::byte> elements) {
  std::string message;
  if (!elements.empty()) {
    append_bytes(message, contents_field(type), packed_elements(type, elements));
  }
  return message;
}

}  // namespace sluice::service
