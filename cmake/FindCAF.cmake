# SPDX-License-Identifier: Apache-2.0
# Finds the C++ Actor Framework 0.17 of Debian and Ubuntu, which has no CMake package. Defines the target CAF::core and
# CAF_VERSION. This file is installed, too: users of sluice's actors include CAF's headers.

find_path(CAF_INCLUDE_DIR caf/all.hpp DOC "Folder of caf/all.hpp")
find_library(CAF_CORE_LIBRARY caf_core DOC "CAF's core library")

set(CAF_VERSION "")
if(CAF_INCLUDE_DIR AND EXISTS "${CAF_INCLUDE_DIR}/caf/config.hpp")
  # One number: major * 10000 + minor * 100 + patch.
  file(STRINGS "${CAF_INCLUDE_DIR}/caf/config.hpp" number REGEX "^#define CAF_VERSION +[0-9]+")
  string(REGEX REPLACE "^#define CAF_VERSION +([0-9]+).*$" "\\1" number "${number}")
  if(number)
    math(EXPR major "${number} / 10000")
    math(EXPR minor "${number} / 100 % 100")
    math(EXPR patch "${number} % 100")
    set(CAF_VERSION "${major}.${minor}.${patch}")
  endif()
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(CAF REQUIRED_VARS CAF_CORE_LIBRARY CAF_INCLUDE_DIR VERSION_VAR CAF_VERSION)
mark_as_advanced(CAF_INCLUDE_DIR CAF_CORE_LIBRARY)

if(CAF_FOUND AND NOT TARGET CAF::core)
  find_package(Threads REQUIRED)
  add_library(CAF::core UNKNOWN IMPORTED)
  set_target_properties(CAF::core PROPERTIES
    IMPORTED_LOCATION "${CAF_CORE_LIBRARY}" INTERFACE_INCLUDE_DIRECTORIES "${CAF_INCLUDE_DIR}"
    INTERFACE_LINK_LIBRARIES Threads::Threads)
endif()
