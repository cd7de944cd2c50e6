// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Marks a function that host code and kernels call. Empty where no CUDA compiler is at work.
#ifdef __CUDACC__
#define SLUICE_HOST_DEVICE __host__ __device__
#else
#define SLUICE_HOST_DEVICE
#endif
