# SPDX-License-Identifier: Apache-2.0
# The CUDA toolkit, if there is one.
#
#   SLUICE_HAS_CUDA    true if the CUDA device is built; in the sources the macro SLUICE_HAS_CUDA (1 or undefined)
#   SLUICE_HAS_CUDNN   true if its dnn library is built, too; the macro SLUICE_HAS_CUDNN
#
# Libraries: CUDA::cudart, CUDA::cublas, CUDA::cublasLt, CUDA::cufft, CUDA::curand and CUDNN::cudnn, all shared. The
# driver's library is never linked, because the programs must start on a machine without a driver.

set(SLUICE_HAS_CUDA FALSE)
set(SLUICE_HAS_CUDNN FALSE)
set(SLUICE_CUDA_RPATH "")
set(sluice_minimal_cuda 12.0)

if(NOT SLUICE_CUDA MATCHES "^(AUTO|ON|OFF|TRUE|FALSE|1|0)$")
  message(FATAL_ERROR "SLUICE_CUDA is '${SLUICE_CUDA}'; allowed are AUTO, ON and OFF")
endif()

# Reports why CUDA is left out. With SLUICE_CUDA=ON this is an error.
macro(sluice_without_cuda reason)
  if(SLUICE_CUDA STREQUAL "AUTO")
    message(STATUS "CUDA device: not built (${reason})")
  elseif(SLUICE_CUDA)
    message(FATAL_ERROR "SLUICE_CUDA=${SLUICE_CUDA}, but ${reason}")
  else()
    message(STATUS "CUDA device: not built (SLUICE_CUDA=${SLUICE_CUDA})")
  endif()
endmacro()

if(SLUICE_CUDA STREQUAL "AUTO" AND SLUICE_SANITIZE MATCHES "thread")
  sluice_without_cuda("ThreadSanitizer does not see into CUDA; SLUICE_CUDA=ON builds it nevertheless")
elseif(SLUICE_CUDA)
  # The compiler's own variables come first, then PATH, then the folder of NVIDIA's packages.
  if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
    find_program(SLUICE_NVCC nvcc HINTS ENV CUDA_HOME ENV CUDA_PATH PATHS /usr/local/cuda PATH_SUFFIXES bin DOC "CUDA compiler")
    mark_as_advanced(SLUICE_NVCC)
    if(SLUICE_NVCC)
      set(CMAKE_CUDA_COMPILER "${SLUICE_NVCC}" CACHE FILEPATH "CUDA compiler")
    endif()
  endif()
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
    # Native code for Turing, Ampere and Hopper. Newer GPUs compile the PTX for Hopper.
    set(CMAKE_CUDA_ARCHITECTURES "75-real;80-real;90-real;90-virtual" CACHE STRING "CUDA architectures")
  endif()
  set(CMAKE_CUDA_RUNTIME_LIBRARY Shared)

  if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
    sluice_without_cuda("no nvcc found in PATH or /usr/local/cuda/bin")
  else()
    if(NOT DEFINED SLUICE_NVCC_WORKS)
      # A separate project tries nvcc, so that a toolkit that does not work with this host compiler disables the
      # CUDA device instead of failing the build.
      execute_process(
        COMMAND "${CMAKE_COMMAND}" -G "${CMAKE_GENERATOR}" -S "${CMAKE_CURRENT_LIST_DIR}/nvcc_probe"
                -B "${PROJECT_BINARY_DIR}/CMakeFiles/nvcc_probe" "-DCMAKE_CUDA_COMPILER=${CMAKE_CUDA_COMPILER}"
                "-DCMAKE_CUDA_HOST_COMPILER=${CMAKE_CUDA_HOST_COMPILER}" "-DCMAKE_MAKE_PROGRAM=${CMAKE_MAKE_PROGRAM}"
        RESULT_VARIABLE sluice_probe OUTPUT_VARIABLE sluice_probe_output ERROR_VARIABLE sluice_probe_output)
      file(WRITE "${PROJECT_BINARY_DIR}/CMakeFiles/nvcc_probe.log" "${sluice_probe_output}")
      if(sluice_probe EQUAL 0)
        set(SLUICE_NVCC_WORKS TRUE CACHE INTERNAL "nvcc compiles with this host compiler")
      endif()
    endif()
    if(NOT SLUICE_NVCC_WORKS)
      sluice_without_cuda("${CMAKE_CUDA_COMPILER} cannot compile a trivial program, see ${PROJECT_BINARY_DIR}/CMakeFiles/nvcc_probe.log")
    else()
      enable_language(CUDA)
      find_package(CUDAToolkit)
      if(NOT CUDAToolkit_FOUND OR CUDAToolkit_VERSION VERSION_LESS sluice_minimal_cuda)
        sluice_without_cuda("CUDA ${CUDAToolkit_VERSION} is older than ${sluice_minimal_cuda}")
      elseif(NOT TARGET CUDA::cudart OR NOT TARGET CUDA::cublas OR NOT TARGET CUDA::cublasLt OR NOT TARGET CUDA::cufft
             OR NOT TARGET CUDA::curand)
        sluice_without_cuda("the toolkit in ${CUDAToolkit_LIBRARY_DIR} lacks cudart, cuBLAS, cuBLASLt, cuFFT or cuRAND")
      else()
        set(SLUICE_HAS_CUDA TRUE)
      endif()
    endif()
  endif()
else()
  sluice_without_cuda("")
endif()

if(SLUICE_HAS_CUDA)
  # An installed tree has none of CUDA's libraries. Its programs search the system's folders and this one of NVIDIA's
  # packages.
  set(SLUICE_CUDA_RPATH "/usr/local/cuda/lib64")

  find_package(CUDNN 9)
  if(CUDNN_FOUND)
    set(SLUICE_HAS_CUDNN TRUE)
    message(STATUS "CUDA device: CUDA ${CUDAToolkit_VERSION}, cuDNN ${CUDNN_VERSION}, architectures ${CMAKE_CUDA_ARCHITECTURES}")
  else()
    message(STATUS "CUDA device: CUDA ${CUDAToolkit_VERSION}, architectures ${CMAKE_CUDA_ARCHITECTURES}")
    message(WARNING "cuDNN 9 was not found (cudnn.h and libcudnn): dnn requests on the CUDA device will answer `unsupported`")
  endif()
endif()

# The part of sluice_settings for builds with CUDA.
function(sluice_cuda_settings target)
  target_compile_definitions(${target} PRIVATE SLUICE_HAS_CUDA=1)
  if(SLUICE_HAS_CUDNN)
    target_compile_definitions(${target} PRIVATE SLUICE_HAS_CUDNN=1)
  endif()
  # Without -Wpedantic: the code that nvcc generates for the host compiler is not pedantic.
  target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra,-Wshadow>")
  if(SLUICE_WARNINGS_AS_ERRORS)
    target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CUDA>:-Werror=all-warnings>")
  endif()
  if(SLUICE_SANITIZE)
    target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-fsanitize=${SLUICE_SANITIZE}>")
  endif()
endfunction()
