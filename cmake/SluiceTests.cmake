# SPDX-License-Identifier: Apache-2.0
# The test programs.
#
#   sluice_add_test(NAME <program> SOURCES <file>... [LIBRARIES <target>...] [CUDA_SOURCES <file>...] [SHARDS <n>]
#                   [OPTIMIZED] [STANDALONE])
#
# builds a GoogleTest program into bin/tests, adds it to ctest and installs it with the component `tests`. The program links
# the objects of libsluice, and of libsluice_actors and of the operations if LIBRARIES has sluice_actors_objects and
# sluice_operations_objects; see SluiceLibraries. STANDALONE programs do not use libsluice. CUDA_SOURCES belong to the program only in a build with CUDA. A sanitizer's
# build leaves out the programs that tests/sanitizers.cmake names.
#
# ctest runs the program as a whole, because a process for each of thousands of tests takes longer than most tests. A
# program of more than 20 s has several SHARDS, which run at the same time. Its XML report is in test-reports/;
# tests/count-results adds the reports up. OPTIMIZED is for programs that count instructions, also of templates that they
# instantiate themselves. The environment variable SLUICE_PROGRAM names the command line program.

if(SLUICE_BUILD_TESTS)
  enable_testing()
  include("${PROJECT_SOURCE_DIR}/tests/sanitizers.cmake")
endif()

set(SLUICE_TESTS_DIR "${CMAKE_INSTALL_LIBEXECDIR}/sluice/tests")
file(RELATIVE_PATH sluice_tests_to_libraries "/${SLUICE_TESTS_DIR}" "/${CMAKE_INSTALL_LIBDIR}")

# The compiler options for the code of tests, which runs once, so its speed is worth less than the time to compile it. The
# code that is tested keeps its own options.
function(sluice_test_compile_options target)
  if(SLUICE_SANITIZE)
    target_compile_options(${target} PRIVATE -O0)
  else()
    target_compile_options(${target} PRIVATE "$<$<AND:$<CONFIG:Release>,$<COMPILE_LANGUAGE:CXX>>:-Og>")
  endif()
endfunction()

# In a full build, test programs read the headers that most of them include from one precompiled file.
function(sluice_precompile_test_headers target)
  if(NOT SLUICE_GROUP_SOURCES)
    return()
  endif()
  if(NOT TARGET sluice_test_headers)
    # A program, so that its flags are those of programs.
    add_executable(sluice_test_headers "${PROJECT_SOURCE_DIR}/tests/main.cpp")
    sluice_settings(sluice_test_headers)
    sluice_test_compile_options(sluice_test_headers)
    sluice_add_precompiled_header_options(sluice_test_headers)
    target_link_libraries(sluice_test_headers PRIVATE sluice_objects GTest::gtest Threads::Threads)
    target_precompile_headers(sluice_test_headers PRIVATE
      "$<$<COMPILE_LANGUAGE:CXX>:<gtest/gtest.h$<ANGLE-R>>" "$<$<COMPILE_LANGUAGE:CXX>:<sluice/operations.hpp$<ANGLE-R>>"
      "$<$<COMPILE_LANGUAGE:CXX>:<algorithm$<ANGLE-R>>" "$<$<COMPILE_LANGUAGE:CXX>:<random$<ANGLE-R>>"
      "$<$<COMPILE_LANGUAGE:CXX>:<thread$<ANGLE-R>>")
  endif()
  target_precompile_headers(${target} REUSE_FROM sluice_test_headers)
  sluice_add_precompiled_header_options(${target})
endfunction()

# What ccache needs to store what is compiled with a precompiled header.
function(sluice_add_precompiled_header_options target)
  target_compile_options(${target} PRIVATE
    "$<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fpch-preprocess>" "$<$<COMPILE_LANG_AND_ID:CXX,Clang>:SHELL:-Xclang -fno-pch-timestamp>")
endfunction()

function(sluice_add_test)
  cmake_parse_arguments(PARSE_ARGV 0 test "OPTIMIZED;STANDALONE" "NAME;SHARDS" "SOURCES;CUDA_SOURCES;LIBRARIES")
  if(NOT test_NAME OR test_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "sluice_add_test: NAME is missing, or these arguments are unknown: ${test_UNPARSED_ARGUMENTS}")
  endif()
  sluice_is_left_out(${test_NAME} left_out)
  if(left_out)
    return()
  endif()

  add_executable(${test_NAME} ${test_SOURCES})
  if(SLUICE_HAS_CUDA)
    target_sources(${test_NAME} PRIVATE ${test_CUDA_SOURCES})
  endif()
  sluice_settings(${test_NAME})
  if(NOT test_OPTIMIZED)
    sluice_test_compile_options(${test_NAME})
    if(NOT test_STANDALONE)
      sluice_precompile_test_headers(${test_NAME})
    endif()
  endif()
  sluice_link_test_main(${test_NAME})
  if(NOT test_STANDALONE)
    target_link_libraries(${test_NAME} PRIVATE sluice_objects)
  endif()
  target_link_libraries(${test_NAME} PRIVATE ${test_LIBRARIES} GTest::gtest Threads::Threads)
  set(libraries "$ORIGIN/${sluice_tests_to_libraries}")
  set_target_properties(${test_NAME} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY "${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/tests"
    INSTALL_RPATH "${libraries};${libraries}/sluice;${SLUICE_CUDA_RPATH}")

  cmake_path(GET CMAKE_CURRENT_SOURCE_DIR FILENAME folder)
  sluice_test_filter(filter)
  if(NOT test_SHARDS)
    set(test_SHARDS 1)
  endif()
  math(EXPR last "${test_SHARDS} - 1")
  foreach(shard RANGE ${last})
    set(name ${test_NAME})
    set(environment "SLUICE_PROGRAM=${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/sluice" GTEST_BRIEF=1)
    if(filter)
      list(APPEND environment "GTEST_FILTER=${filter}")
    endif()
    if(test_SHARDS GREATER 1)
      string(APPEND name ".${shard}")
      list(APPEND environment GTEST_TOTAL_SHARDS=${test_SHARDS} GTEST_SHARD_INDEX=${shard})
    endif()
    list(APPEND environment "GTEST_OUTPUT=xml:${PROJECT_BINARY_DIR}/test-reports/${name}.xml")
    add_test(NAME ${name} COMMAND ${test_NAME})
    # Long programs begin first.
    set_tests_properties(${name} PROPERTIES LABELS "${folder}" COST ${test_SHARDS}
      ENVIRONMENT "${environment}")
  endforeach()

  install(TARGETS ${test_NAME} RUNTIME DESTINATION "${SLUICE_TESTS_DIR}" COMPONENT tests)
  set_property(GLOBAL APPEND PROPERTY SLUICE_TEST_PROGRAMS ${test_NAME})
endfunction()

# Links the project's own main function, compiled once.
function(sluice_link_test_main target)
  if(NOT TARGET sluice_test_main)
    add_library(sluice_test_main OBJECT "${PROJECT_SOURCE_DIR}/tests/main.cpp")
    sluice_settings(sluice_test_main)
    target_link_libraries(sluice_test_main PRIVATE GTest::gtest)
  endif()
  target_link_libraries(${target} PRIVATE sluice_test_main)
endfunction()
