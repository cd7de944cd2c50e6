# SPDX-License-Identifier: Apache-2.0
# The test programs.
#
#   sluice_add_test(NAME <program> SOURCES <file>... [LIBRARIES <target>...] [CUDA_SOURCES <file>...] [TIMEOUT <seconds>])
#
# builds a GoogleTest program into bin/tests, adds each of its tests to ctest (which then reports a GTEST_SKIP() as
# skipped) and installs it with the component `tests`. The program links the objects of libsluice, and of libsluice_actors
# and of the operations if LIBRARIES has sluice_actors_objects and sluice_operations_objects; see SluiceLibraries. CUDA_SOURCES belong to the program only in a build with CUDA.
# The timeout (default 120 s, 300 s with a sanitizer) applies to one test. The environment variable SLUICE_PROGRAM names the command line program.

if(SLUICE_BUILD_TESTS)
  enable_testing()
  include(GoogleTest)
endif()

set(SLUICE_TESTS_DIR "${CMAKE_INSTALL_LIBEXECDIR}/sluice/tests")
file(RELATIVE_PATH sluice_tests_to_libraries "/${SLUICE_TESTS_DIR}" "/${CMAKE_INSTALL_LIBDIR}")

function(sluice_add_test)
  cmake_parse_arguments(PARSE_ARGV 0 test "" "NAME;TIMEOUT" "SOURCES;CUDA_SOURCES;LIBRARIES")
  if(NOT test_NAME OR test_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "sluice_add_test: NAME is missing, or these arguments are unknown: ${test_UNPARSED_ARGUMENTS}")
  endif()
  if(NOT test_TIMEOUT)
    set(test_TIMEOUT 120)
    if(SLUICE_SANITIZE)
      set(test_TIMEOUT 300)
    endif()
  endif()

  add_executable(${test_NAME} ${test_SOURCES})
  if(SLUICE_HAS_CUDA)
    target_sources(${test_NAME} PRIVATE ${test_CUDA_SOURCES})
  endif()
  sluice_settings(${test_NAME})
  # The code of tests runs once: a third of its time to compile is worth more than its speed.
  target_compile_options(${test_NAME} PRIVATE "$<$<AND:$<CONFIG:Release>,$<COMPILE_LANGUAGE:CXX>>:-O1>")
  sluice_link_test_main(${test_NAME})
  target_link_libraries(${test_NAME} PRIVATE sluice_objects ${test_LIBRARIES} GTest::gtest Threads::Threads)
  set(libraries "$ORIGIN/${sluice_tests_to_libraries}")
  set_target_properties(${test_NAME} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY "${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/tests"
    INSTALL_RPATH "${libraries};${libraries}/sluice;${SLUICE_CUDA_RPATH}")

  # ctest lists the tests when it starts, so a build does not run the programs that it has built.
  cmake_path(GET CMAKE_CURRENT_SOURCE_DIR FILENAME folder)
  gtest_discover_tests(${test_NAME} DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60 NO_PRETTY_VALUES TEST_PREFIX "${test_NAME}."
    PROPERTIES LABELS "${folder}" TIMEOUT ${test_TIMEOUT} ENVIRONMENT "SLUICE_PROGRAM=${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/sluice")

  install(TARGETS ${test_NAME} RUNTIME DESTINATION "${SLUICE_TESTS_DIR}" COMPONENT tests)
  set_property(GLOBAL APPEND PROPERTY SLUICE_TEST_PROGRAMS ${test_NAME})
endfunction()

# Links the project's own main function, compiled once, or GoogleTest's if the project has none.
function(sluice_link_test_main target)
  set(main "${PROJECT_SOURCE_DIR}/tests/main.cpp")
  if(NOT EXISTS "${main}")
    target_link_libraries(${target} PRIVATE GTest::gtest_main)
    return()
  endif()
  if(NOT TARGET sluice_test_main)
    add_library(sluice_test_main OBJECT "${main}")
    sluice_settings(sluice_test_main)
    target_link_libraries(sluice_test_main PRIVATE GTest::gtest)
  endif()
  target_link_libraries(${target} PRIVATE sluice_test_main)
endfunction()
