# SPDX-License-Identifier: Apache-2.0
# Finds the C++ library of gRPC. Defines the target Grpc::grpc++. The CMake package of Debian and Ubuntu also needs the
# programs that generate code, which are not used.

find_path(Grpc_INCLUDE_DIR grpcpp/grpcpp.h DOC "Folder of grpcpp/grpcpp.h")
find_library(Grpc_LIBRARY grpc++ DOC "gRPC's library for C++")
# The certificates of a server are given to this one, and the headers call functions of it.
find_library(Grpc_CORE_LIBRARY grpc DOC "gRPC's library for C")
# The headers of gRPC call functions of these.
find_library(Grpc_GPR_LIBRARY gpr DOC "gRPC's library of portable functions")
find_library(Grpc_SYNCHRONIZATION_LIBRARY absl_synchronization DOC "The library of Abseil's mutexes, which gRPC uses")

if(Grpc_INCLUDE_DIR AND EXISTS "${Grpc_INCLUDE_DIR}/grpcpp/version_info.h")
  file(STRINGS "${Grpc_INCLUDE_DIR}/grpcpp/version_info.h" version_line REGEX "define GRPC_CPP_VERSION_STRING")
  string(REGEX REPLACE ".*\"([0-9.]+)[^\"]*\".*" "\\1" Grpc_VERSION "${version_line}")
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Grpc
  REQUIRED_VARS Grpc_LIBRARY Grpc_CORE_LIBRARY Grpc_GPR_LIBRARY Grpc_SYNCHRONIZATION_LIBRARY Grpc_INCLUDE_DIR
  VERSION_VAR Grpc_VERSION)
mark_as_advanced(Grpc_INCLUDE_DIR Grpc_LIBRARY Grpc_CORE_LIBRARY Grpc_GPR_LIBRARY Grpc_SYNCHRONIZATION_LIBRARY)

if(Grpc_FOUND AND NOT TARGET Grpc::grpc++)
  add_library(Grpc::grpc++ UNKNOWN IMPORTED)
  set_target_properties(Grpc::grpc++ PROPERTIES
    IMPORTED_LOCATION "${Grpc_LIBRARY}" INTERFACE_INCLUDE_DIRECTORIES "${Grpc_INCLUDE_DIR}"
    INTERFACE_LINK_LIBRARIES "${Grpc_CORE_LIBRARY};${Grpc_GPR_LIBRARY};${Grpc_SYNCHRONIZATION_LIBRARY}")
endif()
