// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Marks a function that is compiled for the host and, by nvcc, for the device as well. Such
/// functions are written once and keep to C++17, which is what `.cu` files speak.
#if defined(__CUDACC__)
#define SLUICE_HOST_DEVICE __host__ __device__
#else
#define SLUICE_HOST_DEVICE
#endif
