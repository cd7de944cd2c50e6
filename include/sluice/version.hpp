// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

// CMake reads the version from these three lines; nothing else states it.

/// The major version. A release that raises it may break every caller.
#define SLUICE_VERSION_MAJOR 0
/// The minor version. While the major version is 0, a release that raises it may break callers.
#define SLUICE_VERSION_MINOR 1
/// The patch version. A release that raises only this number breaks no caller.
#define SLUICE_VERSION_PATCH 0

namespace sluice {

#define SLUICE_TEXT_OF(number) #number
#define SLUICE_VERSION_TEXT(major, minor, patch) \
  SLUICE_TEXT_OF(major) "." SLUICE_TEXT_OF(minor) "." SLUICE_TEXT_OF(patch)

/// The version of these headers, for example "0.1.0". A null character follows the text.
inline constexpr std::string_view version =
    SLUICE_VERSION_TEXT(SLUICE_VERSION_MAJOR, SLUICE_VERSION_MINOR, SLUICE_VERSION_PATCH);

#undef SLUICE_VERSION_TEXT
#undef SLUICE_TEXT_OF

}  // namespace sluice
