# SPDX-License-Identifier: Apache-2.0
# Finds Cairo. Defines the target Cairo::cairo for <cairo.h>.

find_path(Cairo_INCLUDE_DIR cairo.h PATH_SUFFIXES cairo DOC "Folder of cairo.h")
find_library(Cairo_LIBRARY cairo DOC "Cairo's library")

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Cairo REQUIRED_VARS Cairo_LIBRARY Cairo_INCLUDE_DIR)
mark_as_advanced(Cairo_INCLUDE_DIR Cairo_LIBRARY)

if(Cairo_FOUND AND NOT TARGET Cairo::cairo)
  add_library(Cairo::cairo UNKNOWN IMPORTED)
  set_target_properties(Cairo::cairo PROPERTIES
    IMPORTED_LOCATION "${Cairo_LIBRARY}" INTERFACE_INCLUDE_DIRECTORIES "${Cairo_INCLUDE_DIR}")
endif()
