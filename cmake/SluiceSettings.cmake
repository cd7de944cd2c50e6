# SPDX-License-Identifier: Apache-2.0
# The settings of every target.
#
#   sluice_settings(<target>)   language, visibility, warnings, sanitizers, include folders, run paths.
#                               Call it once for each library and program, after add_library or add_executable.
#   sluice_instrument_for_fuzzing(<target>)   lets libFuzzer see which code of the target an input reaches, in a build
#                               with SLUICE_BUILD_FUZZERS.

set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bin")
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/lib")
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/lib")

# The build tree can be moved, too.
set(CMAKE_BUILD_RPATH_USE_ORIGIN ON)

find_program(SLUICE_CCACHE ccache DOC "Compiler cache, used when present")
mark_as_advanced(SLUICE_CCACHE)
if(SLUICE_CCACHE)
  # Clones of the project share what they compile: the cache sees relative paths.
  # It stores what is compiled with a precompiled header only if the header may contain these macros.
  set(launcher env "CCACHE_BASEDIR=${PROJECT_SOURCE_DIR}" CCACHE_NOHASHDIR=1 CCACHE_SLOPPINESS=pch_defines,time_macros
    "${SLUICE_CCACHE}")
  foreach(language IN ITEMS CXX CUDA)
    if(NOT DEFINED CMAKE_${language}_COMPILER_LAUNCHER)
      set(CMAKE_${language}_COMPILER_LAUNCHER ${launcher})
    endif()
  endforeach()
endif()

if(SLUICE_SANITIZE AND NOT SLUICE_SANITIZE MATCHES "^(address|undefined|thread|leak)(,(address|undefined|thread|leak))*$")
  message(FATAL_ERROR
    "SLUICE_SANITIZE is '${SLUICE_SANITIZE}'; allowed are address, undefined, thread and leak, separated by commas")
endif()

set(SLUICE_WARNINGS -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Wextra-semi -Wvla -Wconversion -Wno-sign-conversion)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  list(APPEND SLUICE_WARNINGS -Wduplicated-cond -Wlogical-op)
endif()
set(SLUICE_ERRORS "")
if(SLUICE_WARNINGS_AS_ERRORS)
  set(SLUICE_ERRORS -Werror)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # These warnings come from the optimiser and differ between releases of GCC, so they do not fail the build.
    foreach(warning IN ITEMS maybe-uninitialized array-bounds stringop-overflow stringop-overread
                             restrict free-nonheap-object null-dereference)
      list(APPEND SLUICE_ERRORS -Wno-error=${warning})
    endforeach()
  endif()
endif()

function(sluice_settings target)
  get_target_property(type ${target} TYPE)
  if(type STREQUAL "INTERFACE_LIBRARY")
    message(FATAL_ERROR "sluice_settings: ${target} has no sources of its own")
  endif()

  # `.cu` files use C++17: CMake 3.25 does not support C++20 for nvcc.
  set_target_properties(${target} PROPERTIES
    CXX_STANDARD 20 CXX_STANDARD_REQUIRED ON CXX_EXTENSIONS OFF
    CUDA_STANDARD 17 CUDA_STANDARD_REQUIRED ON CUDA_EXTENSIONS OFF)

  # A library exports only what SLUICE_EXPORT marks.
  set_target_properties(${target} PROPERTIES CXX_VISIBILITY_PRESET hidden CUDA_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)

  target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:${SLUICE_WARNINGS};${SLUICE_ERRORS}>")
  # GCC begins to collect garbage at 512 MiB instead of 128, which saves a tenth of its time.
  target_compile_options(${target} PRIVATE "$<$<COMPILE_LANG_AND_ID:CXX,GNU>:--param=ggc-min-heapsize=524288>")
  # Source locations of errors are relative to the project.
  target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:-fmacro-prefix-map=${PROJECT_SOURCE_DIR}/=>")
  if(SLUICE_HAS_CUDA)
    sluice_cuda_settings(${target})
  endif()

  if(SLUICE_SANITIZE)
    target_compile_options(${target} PRIVATE
      "$<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${SLUICE_SANITIZE};-fno-sanitize-recover=all;-fno-omit-frame-pointer;-g1>")
    target_link_options(${target} PRIVATE -fsanitize=${SLUICE_SANITIZE})
  endif()

  # DT_RPATH, unlike DT_RUNPATH, also applies to the libraries that a bundled library needs.
  target_link_options(${target} PRIVATE LINKER:--disable-new-dtags)

  if(type STREQUAL "EXECUTABLE")
    target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}/include" "${PROJECT_SOURCE_DIR}")
    set(libraries "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
  else()
    target_include_directories(${target}
      PUBLIC "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>" "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>"
      PRIVATE "${PROJECT_SOURCE_DIR}")
    target_compile_features(${target} PUBLIC cxx_std_20)
    set(libraries "$ORIGIN")
  endif()
  set_target_properties(${target} PROPERTIES INSTALL_RPATH "${libraries};${libraries}/sluice;${SLUICE_CUDA_RPATH}")
  if(type STREQUAL "SHARED_LIBRARY")
    # A missing symbol fails the link of the library, not that of its users. Sanitizers leave their symbols open.
    if(NOT SLUICE_SANITIZE)
      target_link_options(${target} PRIVATE LINKER:-z,defs)
    endif()
    set_target_properties(${target} PROPERTIES
      VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
  endif()
endfunction()

function(sluice_instrument_for_fuzzing target)
  if(SLUICE_BUILD_FUZZERS)
    target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:-fsanitize=fuzzer-no-link>")
  endif()
endfunction()
