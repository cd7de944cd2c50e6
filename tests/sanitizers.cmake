# SPDX-License-Identifier: Apache-2.0
# What the tests under a sanitizer leave out, each with its reason. All other tests of layers 1 to 3 run under both, and
# those of layer 4 under AddressSanitizer. What is left out runs in the release build.
#
# sluice_left_out_<sanitizer> names programs, which are not built. sluice_excluded_<sanitizer> has patterns of GoogleTest
# for tests of the other programs.

# The time of these goes into a reference in double precision, whose code no sanitizer needs to judge. Smaller sizes of the
# same operations run.
set(sluice_large_sizes
  *computes_long_sums_and_large_matrices* *.large_convolutions/* *.large_batches/* *.large_lengths* *.many_channels/* *.wide_rows/*
  *reduce_operation.of_many_elements/*)

# ThreadSanitizer judges what several threads share. Its preset builds no models: the importer has no threads, and programs
# have tests of their own.
set(sluice_left_out_thread
  # Values without threads.
  float16_test overlap_test runtime_values_test tensor_test
  # These count instructions, events and allocations on a device whose events order nothing.
  batch_price_test launch_price_test
  # The device has no helpers.
  large_work_test
  # The loops of one operation run in one thread. program_test runs all of them among others.
  convolution_test dnn_test elementwise_test fft_test gemm_test rng_test
  # The packaged library of gRPC has no instrumentation, so the sanitizer does not see how it orders what it passes from
  # thread to thread, and reports hundreds of races. grpc_messages_test is built.
  grpc_front_test
  # They go through kept inputs in one thread.
  arrow_fuzz dlpack_fuzz)
set(sluice_excluded_thread "")

# AddressSanitizer and UndefinedBehaviorSanitizer judge what owns memory, parses or computes sizes.
set(sluice_left_out_address
  # The sanitizer replaces the heap whose allocations these count, or whose size they compare.
  batch_price_test growth_test launch_price_test many_shapes_test memory_price_test
  # The load of soak_test has requests of more kinds.
  flood_test
  # It starts processes whose parts have tests of their own.
  sluiced_test)
set(sluice_excluded_address
  ${sluice_large_sizes}
  # The order of work is judged by ThreadSanitizer and by the results. AddressSanitizer sees memory that the host's heap
  # gets back, which the gated DAGs over `direct` and `guard` free.
  *hazards.running_freely* *hazards.submitted_behind_a_gate*/async *hazards.submitted_behind_a_gate*/pool*
  *hazards.submitted_behind_a_gate*/logging *hazards.submitted_behind_a_gate*/statistics)

# Sets <result> to whether the build leaves out <program>.
function(sluice_is_left_out program result)
  set(left_out FALSE)
  foreach(sanitizer IN ITEMS thread address)
    if(SLUICE_SANITIZE MATCHES ${sanitizer} AND program IN_LIST sluice_left_out_${sanitizer})
      set(left_out TRUE)
    endif()
  endforeach()
  set(${result} ${left_out} PARENT_SCOPE)
endfunction()

# Sets <result> to the filter of GoogleTest for all programs of the build; empty if nothing is excluded.
function(sluice_test_filter result)
  set(patterns "")
  foreach(sanitizer IN ITEMS thread address)
    if(SLUICE_SANITIZE MATCHES ${sanitizer})
      list(APPEND patterns ${sluice_excluded_${sanitizer}})
    endif()
  endforeach()
  list(JOIN patterns ":" filter)
  if(filter)
    string(PREPEND filter "-")
  endif()
  set(${result} "${filter}" PARENT_SCOPE)
endfunction()
