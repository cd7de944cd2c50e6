// SPDX-License-Identifier: Apache-2.0
// The calls that initialize CUDA. The first question for GPUs does.
#include <sluice/runtime/device_runtime.hpp>

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <atomic>

namespace sluice::test {
namespace {

std::atomic<int> query_count{0};

TEST(cuda_initialization, is_left_out_by_a_shared_runtime_of_the_host) {
  EXPECT_EQ(device_runtime::get("host").device().id().kind, device_kind::host);
  EXPECT_EQ(device_runtime::get("host:0").device().id().kind, device_kind::host);
  EXPECT_EQ(query_count.load(), 0) << "the name of a host device is no reason to ask for GPUs";
  EXPECT_EQ(device_runtime::get("auto").device().id().kind, device_kind::host);
  EXPECT_NE(query_count.load(), 0) << "the test does not see the question";
}

}  // namespace
}  // namespace sluice::test

// This replaces the function of the CUDA runtime in the whole program.
extern "C" cudaError_t CUDARTAPI cudaGetDeviceCount(int* count) {
  sluice::test::query_count.fetch_add(1);
  *count = 0;
  return cudaErrorNoDevice;
}
