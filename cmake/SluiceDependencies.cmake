# SPDX-License-Identifier: Apache-2.0
# Finds all third-party libraries. The targets are:
#
#   always        Threads::Threads  nlohmann_json::nlohmann_json  OpenBLAS::openblas  hwy::hwy
#                 hwy::hwy_contrib  Random123::random123
#   if found      Dnnl::dnnl  OnnxMessages::onnx (layer 4)
#   layer 5       CAF::core, of the CAF that SLUICE_CAF chooses
#   layer 6       Boost::headers  OpenSSL::SSL  ZLIB::ZLIB  protobuf::libprotobuf  Grpc::grpc++
#                 PrometheusCore::prometheus_core  CLI11::CLI11, the library Jemalloc_LIBRARY, and the header of toml++ in TomlPlusPlus_INCLUDE_DIR
#   tools         Cairo::cairo  CLI11::CLI11  fmt::fmt
#   tests         GTest::gtest (sluice_add_test links it)
#   CUDA          see SluiceCuda

set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)
find_package(nlohmann_json REQUIRED)

find_package(OpenBLAS MODULE REQUIRED)
find_package(hwy CONFIG REQUIRED)
find_package(Random123 REQUIRED)

find_package(Dnnl 2.6)
if(NOT Dnnl_FOUND)
  message(WARNING "oneDNN 2.6 was not found: dnn requests on the host device will answer `unsupported`")
endif()

if(SLUICE_BUILD_MODELS)
  find_package(OnnxMessages)
  if(NOT OnnxMessages_FOUND)
    message(STATUS "The message classes of ONNX were not found: layer 4, models, is not built")
  endif()
endif()

if(SLUICE_BUILD_ACTORS)
  if(SLUICE_CAF STREQUAL "1")
    find_package(CAF 1.0 CONFIG REQUIRED)
  elseif(SLUICE_CAF STREQUAL "0.17")
    find_package(CAF 0.17.6 MODULE REQUIRED)
  else()
    message(FATAL_ERROR "SLUICE_CAF is '${SLUICE_CAF}'; allowed are 0.17 and 1")
  endif()
  find_package(Cairo MODULE REQUIRED)
  find_package(CLI11 REQUIRED)
  find_package(fmt REQUIRED)
  message(STATUS "Host device: OpenBLAS, oneDNN ${Dnnl_VERSION}, Highway, Random123; actors: CAF ${CAF_VERSION}")
endif()

if(SLUICE_BUILD_SERVICE)
  # Asio and Beast, of which the headers suffice.
  find_package(Boost 1.74 REQUIRED)
  find_package(ZLIB REQUIRED)
  find_package(OpenSSL 3 REQUIRED COMPONENTS SSL)
  find_package(Protobuf REQUIRED MODULE)
  find_package(Grpc 1.51 REQUIRED MODULE)
  find_package(CLI11 REQUIRED)
  find_package(PrometheusCore MODULE REQUIRED)
  find_library(Jemalloc_LIBRARY jemalloc REQUIRED DOC "The library jemalloc")
  find_path(TomlPlusPlus_INCLUDE_DIR toml++/toml.h REQUIRED DOC "Folder of toml++/toml.h")
  # Its header alone is in libprotoc-dev; the class is in the library of protobuf.
  find_path(ProtobufParser_INCLUDE_DIR google/protobuf/compiler/parser.h REQUIRED DOC "Folder of google/protobuf/compiler/parser.h")
  mark_as_advanced(TomlPlusPlus_INCLUDE_DIR ProtobufParser_INCLUDE_DIR Jemalloc_LIBRARY)
endif()

if(SLUICE_BUILD_TESTS)
  find_package(GTest REQUIRED)
endif()
