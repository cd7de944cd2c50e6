# SPDX-License-Identifier: Apache-2.0
# Finds the headers of Random123. Defines the target Random123::random123 for <Random123/philox.h>.

find_path(Random123_INCLUDE_DIR Random123/philox.h DOC "Folder of Random123/philox.h")

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Random123 REQUIRED_VARS Random123_INCLUDE_DIR)
mark_as_advanced(Random123_INCLUDE_DIR)

if(Random123_FOUND AND NOT TARGET Random123::random123)
  add_library(Random123::random123 INTERFACE IMPORTED)
  set_target_properties(Random123::random123 PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "${Random123_INCLUDE_DIR}")
endif()
