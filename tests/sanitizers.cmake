# SPDX-License-Identifier: Apache-2.0
# The test programs that a sanitizer's build leaves out, each with its reason. All others run under both sanitizers.
#
# A program that is left out under a sanitizer runs in the release build and, unless its reason says otherwise, under the
# other sanitizer.

# ThreadSanitizer judges what several threads share.
set(sluice_left_out_thread
  # Values without threads.
  float16_test overlap_test runtime_values_test tensor_test
  # These count instructions, events and allocations on a device whose events order nothing.
  batch_price_test launch_price_test)

# AddressSanitizer and UndefinedBehaviorSanitizer judge what owns memory, parses or computes sizes.
set(sluice_left_out_address
  # The sanitizer replaces the heap whose allocations are counted.
  batch_price_test launch_price_test)

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
