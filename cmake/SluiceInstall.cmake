# SPDX-License-Identifier: Apache-2.0
# The contents of an installed tree. The tree can be moved to another folder or machine.
#
#   component runtime       bin/            the command line program, the service and its worker
#                           lib/            the project's libraries
#                           lib/sluice/     the third-party libraries that they need, see SluiceBundle.cmake.in
#   component development   include/  lib/cmake/sluice/  lib/pkgconfig/
#   component tests         libexec/sluice/tests/    the test programs, run-installed and run-sanitized
#
# Without --component, CMake installs all three.

include(CMakePackageConfigHelpers)
set(SLUICE_PACKAGE_DIR "${CMAKE_INSTALL_LIBDIR}/cmake/sluice")
if(SLUICE_CAF STREQUAL "1")
  set(SLUICE_CAF_MODE CONFIG)
else()
  set(SLUICE_CAF_MODE MODULE)
endif()

# sluice_install_library(<target> HEADERS <name>...)
#
# installs the library, its exported target, the headers include/sluice/<name>.hpp and the folders of these names, and
# <target>.pc for pkg-config. Each library has its own files, because users of sluice_actors need CAF and users of sluice do not.
file(RELATIVE_PATH sluice_pkg_config_to_prefix "/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/")
function(sluice_install_library target)
  cmake_parse_arguments(PARSE_ARGV 1 library "" "" "HEADERS")
  install(TARGETS ${target} EXPORT ${target}
    LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT runtime NAMELINK_COMPONENT development)
  install(EXPORT ${target} FILE ${target}-targets.cmake NAMESPACE sluice:: DESTINATION "${SLUICE_PACKAGE_DIR}" COMPONENT development)
  foreach(name IN LISTS library_HEADERS)
    install(FILES "${PROJECT_SOURCE_DIR}/include/sluice/${name}.hpp" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/sluice"
      COMPONENT development)
    if(IS_DIRECTORY "${PROJECT_SOURCE_DIR}/include/sluice/${name}")
      install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/sluice/${name}" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/sluice"
        COMPONENT development FILES_MATCHING PATTERN "*.hpp" PATTERN "*.cuh")
    endif()
  endforeach()
  configure_file(cmake/${target}.pc.in "${PROJECT_BINARY_DIR}/${target}.pc" @ONLY)
  install(FILES "${PROJECT_BINARY_DIR}/${target}.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig" COMPONENT development)
endfunction()

sluice_install_library(sluice HEADERS export host_device_code version runtime envelope operations)
set(sluice_libraries sluice)
if(TARGET sluice_models)
  sluice_install_library(sluice_models HEADERS models)
  list(APPEND sluice_libraries sluice_models)
endif()
if(TARGET sluice_actors)
  sluice_install_library(sluice_actors HEADERS actors)
  list(APPEND sluice_libraries sluice_actors)
endif()

configure_package_config_file(cmake/sluiceConfig.cmake.in "${PROJECT_BINARY_DIR}/sluiceConfig.cmake"
  INSTALL_DESTINATION "${SLUICE_PACKAGE_DIR}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/sluiceConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/sluiceConfig.cmake" "${PROJECT_BINARY_DIR}/sluiceConfigVersion.cmake"
              "${PROJECT_SOURCE_DIR}/cmake/FindCAF.cmake"
  DESTINATION "${SLUICE_PACKAGE_DIR}" COMPONENT development)

foreach(program IN ITEMS sluice_program sluiced sluice_worker)
  if(TARGET ${program})
    install(TARGETS ${program} RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}" COMPONENT runtime)
    list(APPEND sluice_programs ${program})
  endif()
endforeach()
if(TARGET sluiced)
  # Clients in other languages make their messages from it.
  install(FILES "${PROJECT_SOURCE_DIR}/service/grpc/open_inference.proto" DESTINATION "${CMAKE_INSTALL_DATADIR}/sluice" COMPONENT runtime)
endif()
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" DESTINATION "${CMAKE_INSTALL_DOCDIR}" COMPONENT runtime)
# The headers refer to these pages.
install(DIRECTORY "${PROJECT_SOURCE_DIR}/docs" DESTINATION "${CMAKE_INSTALL_DOCDIR}" COMPONENT development FILES_MATCHING PATTERN "*.md" PATTERN "*.png")
# The pages refer to these.
install(FILES "${PROJECT_SOURCE_DIR}/README.md" "${PROJECT_SOURCE_DIR}/CHANGELOG.md" "${PROJECT_SOURCE_DIR}/CONTRIBUTING.md" "${PROJECT_SOURCE_DIR}/SECURITY.md" DESTINATION "${CMAKE_INSTALL_DOCDIR}" COMPONENT development)
install(DIRECTORY "${PROJECT_SOURCE_DIR}/deploy" DESTINATION "${CMAKE_INSTALL_DOCDIR}" COMPONENT development)
install(DIRECTORY "${PROJECT_SOURCE_DIR}/examples" DESTINATION "${CMAKE_INSTALL_DOCDIR}" COMPONENT development
  FILES_MATCHING REGEX "\\.(cpp|hpp|cu)$")
if(SLUICE_BUILD_TESTS)
  install(PROGRAMS "${PROJECT_SOURCE_DIR}/tests/run-installed" "${PROJECT_SOURCE_DIR}/tests/run-sanitized" DESTINATION "${SLUICE_TESTS_DIR}" COMPONENT tests)
endif()

# The third-party libraries: at installation, SluiceBundle finds those that the built programs and libraries need.
list(TRANSFORM sluice_libraries REPLACE "^(.+)$" "$<TARGET_FILE:\\1>" OUTPUT_VARIABLE sluice_bundle_libraries)
get_property(sluice_bundle_programs GLOBAL PROPERTY SLUICE_TEST_PROGRAMS)
list(APPEND sluice_bundle_programs ${sluice_programs})
list(TRANSFORM sluice_bundle_programs REPLACE "^(.+)$" "$<TARGET_FILE:\\1>")
list(JOIN sluice_bundle_libraries "\n  " sluice_bundle_libraries)
list(JOIN sluice_bundle_programs "\n  " sluice_bundle_programs)
configure_file(cmake/SluiceBundle.cmake.in "${PROJECT_BINARY_DIR}/SluiceBundle.cmake.in" @ONLY)
file(GENERATE OUTPUT "${PROJECT_BINARY_DIR}/SluiceBundle$<$<BOOL:$<CONFIG>>:-$<CONFIG>>.cmake"
  INPUT "${PROJECT_BINARY_DIR}/SluiceBundle.cmake.in")
install(SCRIPT "${PROJECT_BINARY_DIR}/SluiceBundle$<$<BOOL:$<CONFIG>>:-$<CONFIG>>.cmake" COMPONENT runtime)
