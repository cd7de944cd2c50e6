# SPDX-License-Identifier: Apache-2.0
# Finds the message classes of ONNX, which its packaged library has (libonnx-dev, libprotobuf-dev). Defines the target
# OnnxMessages::onnx. The package's own CMake files are not in all distributions.

find_path(OnnxMessages_INCLUDE_DIR onnx/onnx-ml.pb.h DOC "Folder of onnx/onnx-ml.pb.h")
find_library(OnnxMessages_LIBRARY onnx_proto DOC "The library of ONNX's message classes")
find_package(Protobuf QUIET MODULE)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(OnnxMessages REQUIRED_VARS OnnxMessages_LIBRARY OnnxMessages_INCLUDE_DIR Protobuf_FOUND)
mark_as_advanced(OnnxMessages_INCLUDE_DIR OnnxMessages_LIBRARY)

if(OnnxMessages_FOUND AND NOT TARGET OnnxMessages::onnx)
  add_library(OnnxMessages::onnx UNKNOWN IMPORTED)
  set_target_properties(OnnxMessages::onnx PROPERTIES
    IMPORTED_LOCATION "${OnnxMessages_LIBRARY}" INTERFACE_INCLUDE_DIRECTORIES "${OnnxMessages_INCLUDE_DIR}"
    INTERFACE_COMPILE_DEFINITIONS "ONNX_ML=1;ONNX_NAMESPACE=onnx" INTERFACE_LINK_LIBRARIES protobuf::libprotobuf)
endif()
