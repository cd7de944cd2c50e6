# SPDX-License-Identifier: Apache-2.0
# Finds oneDNN 2.x or 3.x. Defines the target Dnnl::dnnl and Dnnl_VERSION. The package's own CMake files require
# OpenCL's development files, which sluice does not need.

find_path(Dnnl_INCLUDE_DIR oneapi/dnnl/dnnl.hpp DOC "Folder of oneapi/dnnl/dnnl.hpp")
find_library(Dnnl_LIBRARY dnnl DOC "oneDNN's library")

set(Dnnl_VERSION "")
if(Dnnl_INCLUDE_DIR AND EXISTS "${Dnnl_INCLUDE_DIR}/oneapi/dnnl/dnnl_version.h")
  file(STRINGS "${Dnnl_INCLUDE_DIR}/oneapi/dnnl/dnnl_version.h" lines REGEX "^#define DNNL_VERSION_(MAJOR|MINOR|PATCH) +[0-9]+")
  list(TRANSFORM lines REPLACE "^#define DNNL_VERSION_[A-Z]+ +([0-9]+).*$" "\\1")
  list(JOIN lines "." Dnnl_VERSION)
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Dnnl REQUIRED_VARS Dnnl_LIBRARY Dnnl_INCLUDE_DIR VERSION_VAR Dnnl_VERSION)
mark_as_advanced(Dnnl_INCLUDE_DIR Dnnl_LIBRARY)

if(Dnnl_FOUND AND NOT TARGET Dnnl::dnnl)
  add_library(Dnnl::dnnl UNKNOWN IMPORTED)
  set_target_properties(Dnnl::dnnl PROPERTIES
    IMPORTED_LOCATION "${Dnnl_LIBRARY}" INTERFACE_INCLUDE_DIRECTORIES "${Dnnl_INCLUDE_DIR}")
endif()
