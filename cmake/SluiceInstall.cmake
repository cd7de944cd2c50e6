# SPDX-License-Identifier: Apache-2.0
# The contents of an installed tree. The tree can be moved to another folder or machine.
#
#   component runtime       bin/            the command line program
#                           lib/            the project's libraries
#                           lib/sluice/     the third-party libraries that they need, see SluiceBundle.cmake.in
#   component development   include/  lib/cmake/sluice/  lib/pkgconfig/sluice.pc
#   component tests         libexec/sluice/tests/    the test programs, run-installed and run-sanitized
#                           libexec/sluice/benchmarks/    the microbenchmarks
#
# Without --component, CMake installs all three.

include(CMakePackageConfigHelpers)
set(SLUICE_PACKAGE_DIR "${CMAKE_INSTALL_LIBDIR}/cmake/sluice")

# sluice::sluice stands for all layers that were built.
add_library(sluice_everything INTERFACE)
add_library(sluice::sluice ALIAS sluice_everything)
set_target_properties(sluice_everything PROPERTIES EXPORT_NAME sluice)

# Each layer has its own file of exported targets, because layer 3 needs CAF and the others do not.
set(sluice_layers "")
foreach(layer IN ITEMS runtime envelope actors)
  if(TARGET sluice_${layer})
    list(APPEND sluice_layers ${layer})
    target_link_libraries(sluice_everything INTERFACE sluice_${layer})
    set_target_properties(sluice_${layer} PROPERTIES EXPORT_NAME ${layer})
    install(TARGETS sluice_${layer} EXPORT sluice-${layer}
      LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT runtime NAMELINK_COMPONENT development)
    install(EXPORT sluice-${layer} NAMESPACE sluice:: DESTINATION "${SLUICE_PACKAGE_DIR}" COMPONENT development)
    install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/sluice/${layer}" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/sluice"
      COMPONENT development FILES_MATCHING PATTERN "*.hpp" PATTERN "*.cuh")
    install(FILES "${PROJECT_SOURCE_DIR}/include/sluice/${layer}.hpp" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/sluice"
      COMPONENT development)
  endif()
endforeach()
install(FILES "${PROJECT_SOURCE_DIR}/include/sluice/version.hpp" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/sluice"
  COMPONENT development)
install(TARGETS sluice_everything EXPORT sluice-sluice)
install(EXPORT sluice-sluice NAMESPACE sluice:: DESTINATION "${SLUICE_PACKAGE_DIR}" COMPONENT development)

configure_package_config_file(cmake/sluiceConfig.cmake.in "${PROJECT_BINARY_DIR}/sluiceConfig.cmake"
  INSTALL_DESTINATION "${SLUICE_PACKAGE_DIR}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/sluiceConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/sluiceConfig.cmake" "${PROJECT_BINARY_DIR}/sluiceConfigVersion.cmake"
              "${PROJECT_SOURCE_DIR}/cmake/FindCAF.cmake"
  DESTINATION "${SLUICE_PACKAGE_DIR}" COMPONENT development)

set(sluice_pkg_config_libraries "")
foreach(layer IN LISTS sluice_layers)
  string(PREPEND sluice_pkg_config_libraries "-lsluice_${layer} ")
endforeach()
if(TARGET sluice_actors)
  string(APPEND sluice_pkg_config_libraries "-lcaf_core ")
endif()
file(RELATIVE_PATH sluice_pkg_config_to_prefix "/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/")
configure_file(cmake/sluice.pc.in "${PROJECT_BINARY_DIR}/sluice.pc" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/sluice.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig" COMPONENT development)

if(TARGET sluice)
  install(TARGETS sluice RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}" COMPONENT runtime)
endif()
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" DESTINATION "${CMAKE_INSTALL_DOCDIR}" COMPONENT runtime)
if(SLUICE_BUILD_TESTS)
  install(PROGRAMS "${PROJECT_SOURCE_DIR}/tests/run-installed" "${PROJECT_SOURCE_DIR}/tests/run-sanitized" DESTINATION "${SLUICE_TESTS_DIR}" COMPONENT tests)
endif()

# The third-party libraries: at installation, SluiceBundle finds those that the built programs and libraries need.
set(sluice_bundle_libraries "")
foreach(layer IN LISTS sluice_layers)
  list(APPEND sluice_bundle_libraries "$<TARGET_FILE:sluice_${layer}>")
endforeach()
get_property(sluice_bundle_programs GLOBAL PROPERTY SLUICE_TEST_PROGRAMS)
if(TARGET sluice)
  list(APPEND sluice_bundle_programs sluice)
endif()
list(TRANSFORM sluice_bundle_programs REPLACE "^(.+)$" "$<TARGET_FILE:\\1>")
list(JOIN sluice_bundle_libraries "\n  " sluice_bundle_libraries)
list(JOIN sluice_bundle_programs "\n  " sluice_bundle_programs)
configure_file(cmake/SluiceBundle.cmake.in "${PROJECT_BINARY_DIR}/SluiceBundle.cmake.in" @ONLY)
file(GENERATE OUTPUT "${PROJECT_BINARY_DIR}/SluiceBundle$<$<BOOL:$<CONFIG>>:-$<CONFIG>>.cmake"
  INPUT "${PROJECT_BINARY_DIR}/SluiceBundle.cmake.in")
install(SCRIPT "${PROJECT_BINARY_DIR}/SluiceBundle$<$<BOOL:$<CONFIG>>:-$<CONFIG>>.cmake" COMPONENT runtime)
