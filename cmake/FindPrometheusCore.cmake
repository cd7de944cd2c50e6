# SPDX-License-Identifier: Apache-2.0
# Finds the core library of prometheus-cpp. Defines the target PrometheusCore::prometheus_core. The library's own CMake
# package also asks for CivetWeb and cURL, which the core does not use.

find_path(PrometheusCore_INCLUDE_DIR prometheus/text_serializer.h DOC "Folder of prometheus/text_serializer.h")
find_library(PrometheusCore_LIBRARY prometheus-cpp-core DOC "The core library of prometheus-cpp")

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(PrometheusCore REQUIRED_VARS PrometheusCore_LIBRARY PrometheusCore_INCLUDE_DIR)
mark_as_advanced(PrometheusCore_INCLUDE_DIR PrometheusCore_LIBRARY)

if(PrometheusCore_FOUND AND NOT TARGET PrometheusCore::prometheus_core)
  add_library(PrometheusCore::prometheus_core UNKNOWN IMPORTED)
  set_target_properties(PrometheusCore::prometheus_core PROPERTIES
    IMPORTED_LOCATION "${PrometheusCore_LIBRARY}" INTERFACE_INCLUDE_DIRECTORIES "${PrometheusCore_INCLUDE_DIR}")
endif()
