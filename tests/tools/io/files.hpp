// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/support/expect_error.hpp"
#include "tests/support/temporary_folder.hpp"

#include <sluice/runtime/error.hpp>

#include <gtest/gtest.h>

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::test {

inline std::string read_text(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline void write_text(const std::filesystem::path& path, std::string_view text) {
  std::ofstream file(path, std::ios::binary);
  file.write(text.data(), static_cast<std::streamsize>(text.size()));
}

inline std::span<const std::byte> as_bytes(std::string_view text) {
  return std::as_bytes(std::span(text));
}

/// The bytes of a number, least significant first.
template <std::unsigned_integral T>
std::string little_endian(T value) {
  std::string bytes;
  for (std::size_t i = 0; i < sizeof(T); ++i)
    bytes += static_cast<char>(static_cast<std::uint64_t>(value) >> (8 * i) & 0xff);
  return bytes;
}
inline std::string little_endian(float value) {
  return little_endian(std::bit_cast<std::uint32_t>(value));
}
inline std::string little_endian(double value) {
  return little_endian(std::bit_cast<std::uint64_t>(value));
}

/// Expects that `action` throws an error with `code` whose text is one line and holds `name` and
/// `text`.
template <class Action>
void expect_error(errc code, std::string_view name, std::string_view text, Action&& action) {
  const std::optional<error> thrown = error_of(action);
  ASSERT_TRUE(thrown) << "no error; expected: " << text;
  const std::string description = thrown->what();
  EXPECT_EQ(to_string(thrown->code()), to_string(code)) << description;
  EXPECT_NE(description.find(name), std::string::npos) << description;
  EXPECT_NE(description.find(text), std::string::npos) << description << "\nexpected: " << text;
  EXPECT_EQ(description.find('\n'), std::string::npos) << description;
}

}  // namespace sluice::test
