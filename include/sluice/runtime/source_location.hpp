// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <version>

#ifdef __cpp_lib_source_location
#include <source_location>
#else
#include <cstdint>
#endif

namespace sluice {

// Clang 14 over libstdc++ has no `std::source_location`.
#ifdef __cpp_lib_source_location

/// A place in the source code: `std::source_location` or a stand-in with the same interface.
///
/// The stand-in is used if the standard library has none for this compiler. All parts of a program
/// must use the same one of the two, because their sizes differ.
using source_location = std::source_location;

#else

class source_location {
 public:
  /// The place of the call if no argument is given.
  [[nodiscard]] static constexpr source_location current(
      const char* file = __builtin_FILE(), const char* function = __builtin_FUNCTION(),
      std::uint_least32_t line = __builtin_LINE(),
      std::uint_least32_t column = __builtin_COLUMN()) noexcept {
    source_location location;
    location.file_ = file;
    location.function_ = function;
    location.line_ = line;
    location.column_ = column;
    return location;
  }

  constexpr source_location() noexcept = default;
  [[nodiscard]] constexpr std::uint_least32_t line() const noexcept { return line_; }
  [[nodiscard]] constexpr std::uint_least32_t column() const noexcept { return column_; }
  [[nodiscard]] constexpr const char* file_name() const noexcept { return file_; }
  [[nodiscard]] constexpr const char* function_name() const noexcept { return function_; }

 private:
  const char* file_ = "";
  const char* function_ = "";
  std::uint_least32_t line_ = 0;
  std::uint_least32_t column_ = 0;
};

#endif

}  // namespace sluice
