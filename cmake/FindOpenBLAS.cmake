# SPDX-License-Identifier: Apache-2.0
# Finds OpenBLAS with its CBLAS interface. Defines the target OpenBLAS::openblas. The header and the library are
# OpenBLAS's own, independent of the system's alternatives for cblas.h and libblas.

set(variants openblas-pthread openblas-openmp openblas-serial openblas)
set(header_folders ${variants})
if(CMAKE_LIBRARY_ARCHITECTURE)
  list(TRANSFORM variants PREPEND "${CMAKE_LIBRARY_ARCHITECTURE}/" OUTPUT_VARIABLE header_folders)
  list(APPEND header_folders ${variants})
endif()
find_path(OpenBLAS_INCLUDE_DIR NAMES cblas.h PATH_SUFFIXES ${header_folders} DOC "Folder of OpenBLAS's cblas.h")
find_library(OpenBLAS_LIBRARY openblas PATH_SUFFIXES ${header_folders} DOC "OpenBLAS's library")

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(OpenBLAS REQUIRED_VARS OpenBLAS_LIBRARY OpenBLAS_INCLUDE_DIR)
mark_as_advanced(OpenBLAS_INCLUDE_DIR OpenBLAS_LIBRARY)

if(OpenBLAS_FOUND AND NOT TARGET OpenBLAS::openblas)
  add_library(OpenBLAS::openblas UNKNOWN IMPORTED)
  set_target_properties(OpenBLAS::openblas PROPERTIES
    IMPORTED_LOCATION "${OpenBLAS_LIBRARY}" INTERFACE_INCLUDE_DIRECTORIES "${OpenBLAS_INCLUDE_DIR}")
endif()
