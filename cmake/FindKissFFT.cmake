# SPDX-License-Identifier: Apache-2.0
# Finds KissFFT's C++ template, which needs no library. Defines the target KissFFT::kissfft for <kissfft/kissfft.hh>.

find_path(KissFFT_INCLUDE_DIR kissfft/kissfft.hh DOC "Folder of kissfft/kissfft.hh")

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(KissFFT REQUIRED_VARS KissFFT_INCLUDE_DIR)
mark_as_advanced(KissFFT_INCLUDE_DIR)

if(KissFFT_FOUND AND NOT TARGET KissFFT::kissfft)
  add_library(KissFFT::kissfft INTERFACE IMPORTED)
  set_target_properties(KissFFT::kissfft PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "${KissFFT_INCLUDE_DIR}")
endif()
