// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "service/protocol/request_error.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

/// An encoder of protobuf messages of its own, and bytes in pieces as gRPC reads them.
namespace sluice::service::test {

inline std::string varint(std::uint64_t value) {
  std::string text;
  while (value > 127) {
    text.push_back(static_cast<char>(128 + value % 128));
    value /= 128;
  }
  text.push_back(static_cast<char>(value));
  return text;
}

inline std::string tag(std::uint32_t field, unsigned type) {
  return varint(std::uint64_t{field} * 8 + type);
}

inline std::string number(std::uint32_t field, std::uint64_t value) {
  return tag(field, 0) + varint(value);
}

inline std::string bytes(std::uint32_t field, std::string_view value) {
  return tag(field, 2) + varint(value.size()) + std::string(value);
}

/// The elements of an array as they lie in memory.
template <class T>
std::string memory_of(const std::vector<T>& elements) {
  std::string text(elements.size() * sizeof(T), '\0');
  if (!elements.empty()) std::memcpy(text.data(), elements.data(), text.size());
  return text;
}

inline std::string packed(const std::vector<std::int64_t>& numbers) {
  std::string text;
  for (const auto each : numbers) text += varint(static_cast<std::uint64_t>(each));
  return text;
}

/// An entry of a map of parameters, with the encoded `InferParameter`.
inline std::string parameter(std::uint32_t field, std::string_view name, std::string_view value) {
  return bytes(field, bytes(1, name) + bytes(2, value));
}

/// A copy of bytes in random pieces, each on the heap, where a sanitizer sees reads beyond its end.
class pieces {
 public:
  pieces(std::string_view text, std::mt19937_64& random) {
    while (!text.empty()) {
      const std::size_t most =
          random() % 4 == 0 ? text.size() : std::min<std::size_t>(5, text.size());
      const std::size_t count = random() % (most + 1);
      storage_.emplace_back(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(count));
      text.remove_prefix(count);
    }
    for (const auto& each : storage_) spans_.push_back(std::as_bytes(std::span(each)));
  }
  [[nodiscard]] std::span<const std::span<const std::byte>> spans() const { return spans_; }

 private:
  std::vector<std::vector<char>> storage_{};
  std::vector<std::span<const std::byte>> spans_{};
};

/// Expects that a function throws a `request_error` whose text has all the `words`.
template <class Function>
void expect_error(request_status status, std::initializer_list<std::string_view> words,
                  Function function) {
  try {
    function();
    ADD_FAILURE() << "no error";
  } catch (const request_error& failure) {
    EXPECT_EQ(failure.status(), status) << failure.what();
    for (const auto word : words) {
      EXPECT_NE(std::string_view(failure.what()).find(word), std::string_view::npos)
          << failure.what() << " lacks " << word;
    }
  }
}

}  // namespace sluice::service::test
